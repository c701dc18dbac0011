"""Parts of a run for tests that need none of them to do anything."""

from collections.abc import Sequence

from deerflow.domain.history import Excerpt


class NoHistory:
    """A thread in which nothing was said."""

    async def search(self, query: str, limit: int) -> Sequence[Excerpt]:
        return []

    async def mentions(self, address: str) -> bool:
        return False
