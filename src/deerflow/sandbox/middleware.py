"""The place of the sandbox in the chain of an agent."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from deerflow.domain.context import RunContext


class SandboxMiddleware(AgentMiddleware[Any, RunContext, Any]):
    """Holds the place between files and tools; without a sandbox there is nothing to do here."""
