"""What a run knows of the tool calls it has made, also before its process died."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

Function = TypeVar("Function", bound=Callable[..., Any])
READ_ONLY = "read_only"
"""What the metadata of a tool says when it may be used again without harm."""


RESUMABLE = "resumable"
"""What the metadata of a tool says when it goes on by itself with a call whose process died."""


def resumable(function: Function) -> Function:
    """Mark a tool that finds out by itself what is left to do of a call that was begun before."""
    setattr(function, RESUMABLE, True)
    return function


def read_only(function: Function) -> Function:
    """Mark a tool that changes nothing but the thread's own state."""
    setattr(function, READ_ONLY, True)
    return function


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool. Models may use an id again, so the message that made the call belongs to its name."""

    id: str
    message_id: str | None
    tool: str


class OutcomeUnknown(Exception):
    """A call was begun before the process died, and nobody knows how far it came."""


@runtime_checkable  # LangChain validates the run context with isinstance
class ToolLedger(Protocol):
    """Calls that change something, written down before they are made and after."""

    def earlier(self, call: Call) -> object | None:
        """What a call led to in an earlier attempt of this run; None when it was not made.

        Raises:
            OutcomeUnknown: It was begun then, and nothing more is known.
        """
        ...

    def of_task(self, task_id: str) -> "ToolLedger":
        """The ledger for the calls of a subagent."""
        ...

    async def begin(self, call: Call) -> None:
        """Write down that a call is about to be made."""
        ...

    async def end(self, call: Call, outcome: object) -> None:
        """Write down what it led to."""
        ...
