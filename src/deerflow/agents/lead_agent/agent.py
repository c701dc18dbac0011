"""The lead agent's graph, one per spec."""

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from deerflow.domain.context import RunContext

AgentGraph = CompiledStateGraph[Any, RunContext, Any, Any]


def build_lead_agent(model: BaseChatModel, checkpointer: BaseCheckpointSaver[str], system_prompt: str) -> AgentGraph:
    """The graph that answers with `model` and remembers in `checkpointer`."""
    return create_agent(model, system_prompt=system_prompt, context_schema=RunContext, checkpointer=checkpointer)


def read_system_prompt() -> str:
    """What the lead agent is told about itself."""
    return (Path(__file__).parent / "prompt.md").read_text(encoding="utf-8")
