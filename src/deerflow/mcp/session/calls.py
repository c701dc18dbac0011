"""Types of tool calls between tools and sessions."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from deerflow.community.web.http import TlsTrust
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.mcp.auth.types import TokenProvider
from deerflow.mcp.status import ServerListing
from deerflow.sandbox.jobs.services import Service, ServiceSpec

Block = dict[str, Any]
"""Content block of LangChain."""
ProgressHandler = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Server with its configuration, and the user and thread it works for."""

    server: str
    config: McpServerConfig
    config_key: str
    user_id: str
    thread_id: str | None
    """None for all threads of the user, or to list the server."""


@dataclass(frozen=True, slots=True)
class McpToolCall:
    """Call of a tool."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    can_ask: bool = True
    """True if a user can answer questions of the server."""
    on_progress: ProgressHandler = field(default=lambda text: None, compare=False)
    """Called with progress messages."""


@dataclass(frozen=True, slots=True)
class McpCallResult:
    """Result of a tool call."""

    blocks: tuple[Block, ...]
    structured: Mapping[str, Any] | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Elicitation:
    """Question of a server to the user during a call."""

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None
    """URL to open, for input that must not pass through us."""


@dataclass(frozen=True, slots=True)
class ElicitationReply:
    """Answer of the user to a question."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


class PendingCall(Protocol):
    """Call in progress; it continues while its run is paused."""

    @property
    def answered(self) -> tuple[Elicitation, ...]:
        """Return the questions answered so far."""
        ...

    async def wait(self) -> "McpCallResult | Elicitation":
        """Return the result, or a question that has to be answered first.

        Raises:
            McpServerError: The call has failed; the text says why.
        """
        ...

    def answer(self, reply: ElicitationReply) -> None:
        """Answer the question that `wait` has returned."""
        ...

    def cancel(self) -> None:
        """Cancel the call at the server. A server that does not answer a ping afterwards is stopped."""
        ...

    async def time_out(self) -> bool:
        """Cancel the call, and return whether the server still answers; one that does not is stopped."""
        ...


class McpSession(Protocol):
    """Open connection to a server."""

    @property
    def is_over(self) -> bool: ...

    @property
    def is_busy(self) -> bool:
        """Return whether a call is in progress whose run is not paused."""
        ...

    @property
    def log(self) -> str:
        """Last part of what the process of the server has printed to standard error."""
        ...

    async def open(self) -> ServerListing:
        """Connect and return the listing; called once.

        Raises:
            McpServerError: The connection failed; the text says why.
            LoginRequired: The user has to log in first.
        """
        ...

    def begin(self, request: McpToolCall) -> PendingCall:
        """Start a call."""
        ...

    def find(self, request: McpToolCall) -> PendingCall | None:
        """Return the same call if it was started before and its run was paused."""
        ...

    async def aclose(self) -> None:
        """End the session and the process started for it."""
        ...


def retrieve_exception(task: "asyncio.Task[Any]") -> None:
    """Mark the exception of a task as retrieved, as a done callback: those who wait for the task handle it."""
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True, slots=True)
class SessionDependencies:
    """Services that sessions need."""

    start: Callable[[ServiceSpec], Awaitable[Service]]
    tokens: TokenProvider
    prune_homes: Callable[[Collection[str]], Awaitable[None]] | None = None
    """Removes the home folders of processes whose entry no longer exists."""
    trust: TlsTrust = field(default_factory=TlsTrust)
