"""A conversation, as everyone outside the database sees it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

ThreadStatus = Literal["idle", "busy", "interrupted", "error"]


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """One conversation."""

    thread_id: str
    owner: str
    title: str | None
    metadata: Mapping[str, object]
    status: ThreadStatus
    created_at: datetime
    updated_at: datetime
