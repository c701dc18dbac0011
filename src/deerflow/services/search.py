"""Full-text search in all threads of a user."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import orjson

from deerflow.domain.errors import DeerFlowError, InvalidRequest
from deerflow.domain.identity import Principal
from deerflow.domain.threads import SearchableMessage, SearchHit
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.search import (
    BacklogChange,
    find_next_in_backlog,
    index_backlog_thread,
    read_backlog_changes,
    search_text,
)
from deerflow.runtime.transcript import Transcript

logger = logging.getLogger(__name__)

MAX_OFFSET = 10_000
"""Largest offset of a page."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Hits, best first, and the cursor of the next page."""

    hits: Sequence[SearchHit]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class SearchService:
    """Search in messages and thread titles."""

    database: Database

    async def search(self, who: Principal, query: str, limit: int, cursor: str | None = None) -> SearchPage:
        """Return the messages that contain all words of `query`; the last word may be a prefix.

        Raises:
            InvalidRequest: The cursor is invalid.
        """
        offset = parse_cursor(cursor)
        query_rows = partial(search_text, owner=who.user_id, query=query, limit=limit + 1, offset=offset)
        found = await self.database.read(query_rows)
        return SearchPage(found[:limit], str(offset + limit) if len(found) > limit else None)


def parse_cursor(cursor: str | None) -> int:
    """Return the offset of a cursor."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and int(cursor[:9]) <= MAX_OFFSET):
        raise InvalidRequest(f"invalid cursor {cursor!r}; use `next_cursor` of the previous page")
    return int(cursor)


@asynccontextmanager
async def index_backlog_in_background(database: Database) -> AsyncIterator[None]:
    """Index threads that are not indexed yet, in the background."""
    task = asyncio.create_task(index_backlog(database), name="search backlog")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def index_backlog(database: Database) -> None:
    """Index the threads of the backlog; on a failure the rest is left to the next start."""
    try:
        while thread_id := await database.read(find_next_in_backlog):
            changes = await database.read(partial(read_backlog_changes, thread_id=thread_id))
            messages = await asyncio.to_thread(group_messages_by_run, changes)
            await database.write(partial(index_backlog_thread, thread_id=thread_id, messages=messages))
    except DeerFlowError as problem:
        logger.warning("search index incomplete, indexing continues after a restart: %s", problem)


def group_messages_by_run(changes: Sequence[BacklogChange]) -> dict[str, list[SearchableMessage]]:
    """Return the searchable messages of each run that were not reverted."""
    by_run: dict[str, Transcript] = {}
    for change in changes:
        data = orjson.loads(change.data)
        for transcript in by_run.values() if change.is_reverting else ():
            transcript.remove(data["removed"])
        by_run.setdefault(change.run_id, Transcript()).add_logged(data, change.created_at)
    return {run_id: list(transcript.messages.values()) for run_id, transcript in by_run.items()}
