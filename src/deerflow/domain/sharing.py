"""Threads that others may read."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Share:
    """A link under which anybody may read what was said in a thread until the link was made."""

    share_id: str
    owner: str
    thread_id: str
    created_at: datetime
    expires_at: datetime | None
