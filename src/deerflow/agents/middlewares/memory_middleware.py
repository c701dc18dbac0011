"""The place of long-term memory in the chain of an agent."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext


class MemoryMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Holds the place after the title; without a memory there is nothing to do here."""
