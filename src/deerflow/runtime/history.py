"""What was said in a thread, found in its journal: also what has left the model's view."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from deerflow.domain.history import Excerpt
from deerflow.persistence.database import Database
from deerflow.persistence.history import find_messages, mentions_address


@dataclass(frozen=True, slots=True)
class JournalHistory:
    """The history of one thread."""

    database: Database
    thread_id: str

    async def search(self, query: str, limit: int) -> Sequence[Excerpt]:
        """Messages that contain all words of `query`, newest first."""
        words = query.lower().split()
        if not words or limit < 1:
            return []
        return await self.database.read(partial(find_messages, thread_id=self.thread_id, words=words, limit=limit))

    async def mentions(self, address: str) -> bool:
        """Whether somebody wrote an address, or strangers did in what was read; as `reading.essence` has it."""
        return await self.database.read(partial(mentions_address, thread_id=self.thread_id, address=address))
