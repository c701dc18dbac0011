"""What is yet to be learned from a conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

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
