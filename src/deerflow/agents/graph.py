"""What an agent is when it is built."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatResult
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext

AgentGraph = CompiledStateGraph[Any, RunContext, Any, Any]


def build_state_graph(checkpointer: BaseCheckpointSaver[str]) -> AgentGraph:
    """A graph that reads and mends what agents left in `checkpointer`, whatever models there are now."""
    return create_agent(NoModel(), state_schema=ThreadState, context_schema=RunContext, checkpointer=checkpointer)


class NoModel(BaseChatModel):
    """Stands where a graph has to have a model, although nobody will ask it anything."""

    @property
    def _llm_type(self) -> str:
        return "none"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("a graph that only holds states was asked to answer")
