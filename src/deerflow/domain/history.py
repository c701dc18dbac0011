"""What was said in a thread, including what no longer fits into the model's view."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A message that was said once: who (`human`, `ai`, `tool`), when, and its text."""

    role: str
    text: str
    said_at: datetime


@runtime_checkable
class ThreadHistory(Protocol):
    """The thread's own journal."""

    async def search(self, query: str, limit: int) -> Sequence[Excerpt]:
        """Messages that contain all words of `query`, newest first."""
        ...

    async def mentions(self, address: str) -> bool:
        """Whether somebody wrote an address, or strangers did in what was read; as `reading.essence` has it."""
        ...
