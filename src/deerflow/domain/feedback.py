"""What people think of a run."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Rating = Literal[-1, 1]


@dataclass(frozen=True, slots=True)
class Feedback:
    """One opinion: of a run, or of one of its messages."""

    feedback_id: str
    owner: str
    thread_id: str
    run_id: str
    message_id: str | None
    rating: Rating
    comment: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class FeedbackStats:
    """How many liked it, and how many did not."""

    total: int
    positive: int
    negative: int
