"""Parts of a run for tests that need none of them to do anything."""

from collections.abc import Sequence

from deerflow.domain.threads import HistoryMessage


class NoHistory:
    """A thread in which nothing was said."""

    async def search(self, query: str, limit: int) -> Sequence[HistoryMessage]:
        return []

    async def contains_url(self, url: str) -> bool:
        return False
