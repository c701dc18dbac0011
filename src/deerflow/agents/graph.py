"""What an agent is when it is built."""

from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext
from deerflow.models.demo import DemoChatModel

AgentGraph = CompiledStateGraph[Any, RunContext, Any, Any]


def build_state_graph(checkpointer: BaseCheckpointSaver[str]) -> AgentGraph:
    """A graph that reads and mends what agents left in `checkpointer`, whatever models there are now."""
    return create_agent(DemoChatModel(), state_schema=ThreadState, context_schema=RunContext, checkpointer=checkpointer)
