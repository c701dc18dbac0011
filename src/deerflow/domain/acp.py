"""Agents of others, as tools see them: work is given to one, and it may ask for permission before it is done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class AcpOrder:
    """Work for an agent of somebody else's."""

    call_id: str
    agent: str
    prompt: str
    can_ask: bool = True
    """Whether there is somebody who can give permission."""
    hear: Callable[[str], None] = field(default=lambda text: None, compare=False)
    """Told of progress."""


@dataclass(frozen=True, slots=True)
class PermissionQuestion:
    """Something an agent wants to do, which a person has to allow."""

    title: str
    kind: str = "other"
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AcpAnswer:
    """What an agent said in the end, and why it stopped."""

    text: str
    stop_reason: str


class PendingWork(Protocol):
    """Work under way; it waits for a permission also while its run is paused."""

    @property
    def answered(self) -> tuple[PermissionQuestion, ...]:
        """What was asked and answered so far."""
        ...

    async def proceed(self) -> AcpAnswer | PermissionQuestion:
        """The answer, or what has to be allowed or refused first.

        Raises:
            AcpProblem: Neither will come; the text says why.
        """
        ...

    def answer(self, *, is_allowed: bool) -> None:
        """Allow or refuse what `proceed` has told."""
        ...

    async def cancel(self) -> None:
        """Have the agent stop, and end it."""
        ...


@runtime_checkable  # LangChain validates the run context with isinstance
class AcpAgents(Protocol):
    """The agents that a run can give work to."""

    async def begin(self, order: AcpOrder) -> PendingWork:
        """Start work, or find the one that was waiting while its run was paused.

        Raises:
            AcpProblem: There is no such agent, or it cannot be started; the text says why.
        """
        ...
