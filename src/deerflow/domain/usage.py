"""What model calls take, in tokens and in money."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import add
from typing import Protocol, runtime_checkable

LEAD_AGENT, SUBAGENT, SUMMARIZATION = "lead_agent", "subagent", "summarization"
TITLE, SUGGESTIONS, INPUT_POLISH = "title", "suggestions", "input_polish"
SKILL_REVIEW, MEMORY = "skill_review", "memory"


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """What some model calls took. Cached tokens are part of the input, reasoning is part of the output."""

    calls: int = 0
    unmetered_calls: int = 0
    """Those whose model did not say what they took, or that were broken off before it could."""
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(*(getattr(self, name) + getattr(other, name) for name in TokenCounts.__slots__))


UNMETERED = TokenCounts(calls=1, unmetered_calls=1)


def total(counts: Iterable[TokenCounts]) -> TokenCounts:
    """All of them together."""
    return reduce(add, counts, TokenCounts())


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What one model took for one purpose."""

    caller: str
    model: str
    counts: TokenCounts
    context_tokens: int | None = None
    """How much the newest request and its answer filled of the model's window."""
    cost: int | None = None
    """In millionths of a millionth of `currency`; None when nobody knows the price."""
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class UsageOrigin:
    """Whose calls they were, and when they were over."""

    owner: str
    ended_at: datetime
    thread_id: str | None = None
    run_id: str | None = None


@runtime_checkable
class UsageMeter(Protocol):
    """Notes what the model calls of one run take."""

    def note(self, caller: str, model: str, message_id: str | None, counts: TokenCounts) -> None:
        """One call; a message that was noted before is not counted again."""
