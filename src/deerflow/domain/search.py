"""What was said in any thread, found by its words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

SaidBy = Literal["human", "ai", "title"]


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """Something that can be found."""

    message_id: str
    role: SaidBy
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What a thread said after a point it went back to."""

    after: datetime
    kept: Sequence[str]
    """Messages that stay, though they may have been noted a moment later."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A place where the words are."""

    thread_id: str
    title: str | None
    run_id: str | None
    message_id: str | None
    role: SaidBy
    snippet: str
    highlights: Sequence[tuple[int, int]]
    """Where in `snippet` the words are, counted in characters."""
    created_at: datetime
