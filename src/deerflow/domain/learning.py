"""What is yet to be learned from a conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from deerflow.domain.budget import SpendingLimit
from deerflow.domain.memory import MemoryScope

Speaker = Literal["human", "ai"]


@dataclass(frozen=True, slots=True)
class Heard:
    """A message that something may be learned from."""

    message_id: str
    role: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Signs:
    """What a person has let on about the answers they got."""

    correction: bool = False
    reinforcement: bool = False

    def __or__(self, other: "Signs") -> "Signs":
        return Signs(self.correction or other.correction, self.reinforcement or other.reinforcement)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread that is yet to be learned from, and when; `is_being_read`: somebody is at it."""

    thread_id: str
    due_at: datetime
    is_being_read: bool
    is_unpaid: bool = False
    """Whether it waits for the thread's next run, since the budget of the last one does not pay for it."""


@dataclass(frozen=True, slots=True)
class Payer:
    """The run that learning is paid by: the last that was part of what is learned from."""

    run_id: str
    limit: SpendingLimit | None = None
    """What is left of its budget for that; None: it has none to keep to."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a thread has said since it was last learned from."""

    scope: MemoryScope
    thread_id: str
    messages: Sequence[Heard]
    signs: Signs
    due_at: datetime
    attempts: int = 0
    """How often it was begun, this time included."""
    claim: str = ""
    """Under which name it is being worked on."""
    payer: Payer | None = None
    """None where nobody has noted it."""
