"""One call of a tool, as it goes between a tool and a session."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from deerflow.config.extensions import McpServerConfig
from deerflow.mcp.status import Listing

Block = dict[str, Any]
"""A content block as LangChain knows them."""
Heard = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Address:
    """A server, as it is configured, and for whom it works."""

    server: str
    config: McpServerConfig
    config_key: str
    user_id: str
    thread_id: str | None
    """None: for all threads of the user, or for nobody's, to ask what there is."""


@dataclass(frozen=True, slots=True)
class CallOrder:
    """What a tool is to do."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    can_ask: bool = True
    """Whether there is somebody who can answer what the server asks meanwhile."""
    hear: Heard = field(default=lambda text: None, compare=False)
    """Told of progress."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a tool said."""

    blocks: tuple[Block, ...]
    structured: Mapping[str, Any] | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What a server wants to know from the user before it goes on."""

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None
    """Where the user is to go, for what must not pass through us."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the user said to a question."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


class PendingCall(Protocol):
    """A call under way; it goes on while a run is paused."""

    @property
    def answered(self) -> tuple[Question, ...]:
        """What has been asked and answered so far."""
        ...

    async def proceed(self) -> "CallResult | Question":
        """What comes next: the result, or a question that has to be answered first.

        Raises:
            McpProblem: Neither will come; the text says why.
        """
        ...

    def answer(self, reply: Reply) -> None:
        """Answer the question that `proceed` has told."""
        ...

    def cancel(self) -> None:
        """Tell the server that nobody waits any more."""
        ...


class Session(Protocol):
    """A connection to a server that has been opened."""

    @property
    def is_over(self) -> bool: ...

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way and its run not paused."""
        ...

    async def open(self) -> Listing:
        """Connect, and ask what there is; once.

        Raises:
            McpProblem: It did not work; the text says why.
            LoginNeeded: The user has to log in first.
        """
        ...

    def begin(self, order: CallOrder) -> PendingCall:
        """Start a call."""
        ...

    def find(self, order: CallOrder) -> PendingCall | None:
        """The same call, if it was begun before and its run was paused."""
        ...

    async def aclose(self) -> None:
        """End it, and what was started for it."""
        ...
