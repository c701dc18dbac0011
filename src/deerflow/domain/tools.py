"""Tool metadata and the ledger of tool calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

Function = TypeVar("Function", bound=Callable[..., Any])

# Keys of a tool's metadata.
SOURCE, SERVER, MCP_TOOL = "source", "server", "mcp_tool"
"""The origin of a tool; for MCP also the server and the tool's name there."""
MCP_SOURCE = "mcp"
"""The source of a tool that an MCP server provides."""
CONFIGURED_SOURCE = "configured"
"""The source of a tool that is listed in the configuration."""
PREFERRED = "preferred"
"""Set when the configuration prefers a tool: `subject`, `priority` and `keywords`, see `tools/preferred.py`."""
UNTRUSTED = "untrusted"
"""Set when a tool returns untrusted content."""
READ_ONLY = "read_only"
"""Set when a tool changes nothing and may be called again without harm."""
RESUMABLE = "resumable"
"""Set when a tool can continue a call that a dead process has started."""

CHANGES_FILES = "changes_files"
"""Set when a tool changes nothing but files of the sandbox."""


def changes_files(function: Function) -> Function:
    """Mark a tool that changes nothing but files of the sandbox."""
    setattr(function, CHANGES_FILES, True)
    return function


def resumable(function: Function) -> Function:
    """Mark a tool that can continue a call that was started by a dead process."""
    setattr(function, RESUMABLE, True)
    return function


def read_only(function: Function) -> Function:
    """Mark a tool that changes nothing but the thread's own state."""
    setattr(function, READ_ONLY, True)
    return function


@dataclass(frozen=True, slots=True)
class LedgerCall:
    """A tool call. Models may reuse a call id, so the id of its message is part of the key."""

    id: str
    message_id: str | None
    tool: str
    reaches_out: bool = True
    """Whether it can change something outside of this machine.

    Then its intent survives a power failure too, and its outcome is written at once.
    """


class OutcomeUnknown(Exception):
    """A call was started before the process died, and its outcome is unknown."""


@runtime_checkable  # LangChain validates the run context with isinstance
class ToolLedger(Protocol):
    """The record of calls with side effects, written before and after each call."""

    def find_outcome(self, call: LedgerCall) -> object | None:
        """Return the outcome of a call in an earlier attempt of this run; None when it was not made.

        Raises:
            OutcomeUnknown: The call was started, and no outcome was recorded.
        """
        ...

    def for_task(self, task_id: str) -> "ToolLedger":
        """Return the ledger for the calls of a subagent."""
        ...

    async def begin(self, call: LedgerCall) -> None:
        """Record that a call is about to be made."""
        ...

    async def end(self, call: LedgerCall, outcome: object) -> None:
        """Record the outcome of a call."""
        ...

    def note_duration(self, call: LedgerCall, seconds: float) -> None:
        """Take note of the duration of a call, for people who read the thread."""
        ...


@runtime_checkable
class ToolAudit(Protocol):
    """The audit log, for calls that reach outside of the sandbox."""

    async def record_call(self, tool: str, server: str | None, *, has_failed: bool) -> None:
        """Record the outcome of a call, and the MCP server if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class ToolPermission:
    """Permission to call a tool in one thread without asking again."""

    tool: str
    rule: str = ""
    """The rule that would ask; empty when every call of the tool needs approval."""
    hosts: tuple[str, ...] = ()
    """Hosts of the URLs in the arguments, sorted. A call with other hosts needs approval."""


@runtime_checkable
class ThreadPermissions(Protocol):
    """Permissions that the user has given for one thread."""

    async def allows(self, wanted: ToolPermission) -> bool: ...

    async def grant(self, permission: ToolPermission) -> None: ...
