"""The place of deferred tools in the chain of an agent."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext


class DeferredToolFilterMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Holds the place close to the model; without deferred tools there is nothing to do here."""
