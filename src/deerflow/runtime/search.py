"""Finding what was said in any thread."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import orjson

from deerflow.domain.errors import DeerFlowError, InvalidRequest
from deerflow.domain.principal import Principal
from deerflow.domain.search import SaidMessage, SearchHit
from deerflow.persistence.backlog import OldChange, next_in_backlog, old_changes, work_off
from deerflow.persistence.database import Database
from deerflow.persistence.search import search_said
from deerflow.runtime.said import Said

logger = logging.getLogger(__name__)

DEEPEST = 10_000
"""Nobody leafs on for so long; better words find it sooner."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Hits, the best first, and where to go on."""

    hits: Sequence[SearchHit]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Search:
    """What was said, by people and agents, and the titles of threads."""

    database: Database

    async def find(self, who: Principal, query: str, limit: int, cursor: str | None = None) -> SearchPage:
        """Where all words of `query` are; the last of them may be unfinished.

        Raises:
            InvalidRequest: the cursor is not one that was given out.
        """
        offset = read_cursor(cursor)
        mine = partial(search_said, owner=who.user_id, query=query, limit=limit + 1, offset=offset)
        found = await self.database.read(mine)
        return SearchPage(found[:limit], str(offset + limit) if len(found) > limit else None)


def read_cursor(cursor: str | None) -> int:
    """Where to go on."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and int(cursor[:9]) <= DEEPEST):
        raise InvalidRequest(f"{cursor!r} is no cursor: send `next_cursor` of the page before, or none")
    return int(cursor)


@asynccontextmanager
async def catching_up(database: Database) -> AsyncIterator[None]:
    """Put threads from before there was an index into it, little by little."""
    task = asyncio.create_task(catch_up(database), name="search backlog")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def catch_up(database: Database) -> None:
    """Work off the backlog; what cannot be had now is left to the next start."""
    try:
        while thread_id := await database.read(next_in_backlog):
            changes = await database.read(partial(old_changes, thread_id=thread_id))
            said = await asyncio.to_thread(said_by_runs, changes)
            await database.write(partial(work_off, thread_id=thread_id, said=said))
    except DeerFlowError as problem:
        logger.warning("old threads are not all in the search index yet: %s", problem)


def said_by_runs(changes: Sequence[OldChange]) -> dict[str, list[SaidMessage]]:
    """What each run said that still holds."""
    heard: dict[str, Said] = {}
    for change in changes:
        data = orjson.loads(change.data)
        for said in heard.values() if change.takes_back else ():
            said.forget(data["removed"])
        heard.setdefault(change.run_id, Said()).hear_logged(data, change.said_at)
    return {run_id: list(said.messages.values()) for run_id, said in heard.items()}
