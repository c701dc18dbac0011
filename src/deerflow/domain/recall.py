"""What a run can remember, and what it is told of that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from deerflow.domain.memory import Category, Fact


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a run was told of a memory, and what was left out."""

    considered: int
    """How many facts there were."""
    injected: Sequence[str]
    """The facts it was told."""
    dropped: int
    tokens: int
    is_new: bool
    """Whether this was chosen for the run, or when its thread began."""

    def to_event(self) -> dict[str, object]:
        """The receipt as readers of the run get it."""
        counts = {"considered": self.considered, "dropped": self.dropped, "tokens": self.tokens}
        return {"type": "memory", "injected": list(self.injected), **counts, "is_new": self.is_new}


@dataclass(frozen=True, slots=True)
class Recalled:
    """Words for the model from a memory; empty when there is nothing to tell."""

    text: str = ""
    note: Mapping[str, Any] = field(default_factory=dict)
    """By which the same words are found again: no more than names, so that what is erased is gone."""
    receipt: Receipt | None = None
    """None where nothing was chosen: the memory is off, or the thread began before."""


@runtime_checkable
class RunMemory(Protocol):
    """What is remembered of the person an agent works for."""

    async def recall(self, words: str) -> Recalled:
        """What to tell the model at the beginning of a thread that begins with `words`."""
        ...

    async def recall_again(self, note: Mapping[str, Any]) -> Recalled:
        """What a note stands for, as it was told then; without what was erased since."""
        ...

    def take_receipt(self, recalled: Recalled) -> Receipt | None:
        """The receipt for a run, once."""
        ...

    async def search(self, query: str, category: Category | None, limit: int) -> Sequence[Fact]:
        """The facts that fit best."""
        ...

    async def add(self, content: str, category: Category, confidence: float) -> Fact:
        """Remember something."""
        ...

    async def update(
        self, fact_id: str, content: str | None, category: Category | None, confidence: float | None
    ) -> Fact:
        """Remember something in another way."""
        ...

    async def delete(self, fact_id: str) -> None:
        """No longer know something."""
        ...
