"""A conversation, as everyone outside the database sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
WaitsFor = Literal["answer", "approval"]
"""What a thread waits for a person for: a question of the agent's, or a word before it acts."""
ThreadOrder = Literal["thread_id", "status", "created_at", "updated_at"]


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
    waits_for: WaitsFor | None = None


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """Which threads are looked for, and in which order."""

    metadata: Mapping[str, object] = field(default_factory=dict)
    ids: Sequence[str] | None = None
    status: ThreadStatus | None = None
    sort_by: ThreadOrder = "updated_at"
    ascending: bool = False
