"""Data of users: their profile, which agents read, and a key-value store for clients."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import Rating, RunFeedback, RunFeedbackStats
from deerflow.domain.threads import Namespace, StoredItem, check_namespace
from deerflow.persistence.engine.database import Database
from deerflow.services import queries as rows
from deerflow.services.queries import read_profile, write_profile

MAX_PROFILE_CHARS = 8000
CACHE_S = 10.0
"""Maximum age of a cached profile; changes of other processes are seen later by as much."""
MAX_CACHED = 1000


class ProfileService:
    """Profiles of users, cached for a few seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._cache: dict[str, tuple[str, float]] = {}

    async def get(self, who: Principal) -> str:
        """Return the profile of a user; empty when there is none."""
        return await self._database.read(partial(read_profile, owner=who.user_id))

    async def put(self, who: Principal, content: str) -> str:
        """Replace the profile of a user.

        Raises:
            InvalidRequest: It is too long.
        """
        text = content.strip().replace("\0", "\ufffd")
        if len(text) > MAX_PROFILE_CHARS:
            raise InvalidRequest(f"profile has {len(text)} characters; the maximum is {MAX_PROFILE_CHARS}")
        await self._database.write(partial(write_profile, owner=who.user_id, content=text))
        self._cache.pop(who.user_id, None)
        return text

    async def get_for_run(self, owner: str) -> str:
        """Return the profile for the agents of a user, perhaps cached."""
        content, read_at = self._cache.get(owner, ("", -CACHE_S))
        now = self._clock()
        if now - read_at < CACHE_S:
            return content
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        content = await self._database.read(partial(read_profile, owner=owner))
        self._cache[owner] = content, now
        return content


@dataclass(frozen=True, slots=True)
class KeyValueStore:
    """Key-value store of LangGraph clients. Every method is restricted to the items of `who`."""

    database: Database

    async def put(self, who: Principal, namespace: Sequence[str], key: str, value: Mapping[str, object]) -> None:
        """Store `value` under `key`; replace the value that was there."""
        checked = check_namespace(namespace)
        await self.database.write(partial(rows.put_item, owner=who.user_id, namespace=checked, key=key, value=value))

    async def get(self, who: Principal, namespace: Sequence[str], key: str) -> StoredItem | None:
        """Return the item under `key`, None when there is none."""
        checked = check_namespace(namespace)
        return await self.database.read(partial(rows.get_item, owner=who.user_id, namespace=checked, key=key))

    async def delete(self, who: Principal, namespace: Sequence[str], key: str) -> None:
        """Delete the item under `key`, if there is one."""
        checked = check_namespace(namespace)
        await self.database.write(partial(rows.delete_item, owner=who.user_id, namespace=checked, key=key))

    async def search(
        self, who: Principal, prefix: Sequence[str], wanted: Mapping[str, object], limit: int, offset: int
    ) -> Sequence[StoredItem]:
        """Return the items below `prefix` that match `wanted`, oldest first."""
        checked = check_namespace(prefix, may_be_empty=True)
        query = partial(rows.search_items, owner=who.user_id, prefix=checked, wanted=wanted)
        return await self.database.read(partial(query, limit=limit, offset=offset))

    async def list_namespaces(
        self, who: Principal, prefix: Sequence[str], suffix: Sequence[str], max_depth: int | None
    ) -> Sequence[Namespace]:
        """Return the namespaces that hold items, cut at `max_depth`, without duplicates."""
        checked = check_namespace(prefix, may_be_empty=True)
        found = await self.database.read(partial(rows.list_namespaces, owner=who.user_id, prefix=checked))
        ending = [name for name in found if not suffix or name[-len(suffix) :] == tuple(suffix)]
        return list(dict.fromkeys(name[:max_depth] for name in ending))


@dataclass(frozen=True, slots=True)
class FeedbackService:
    """Feedback on runs. Every method is restricted to the runs of `who`, and raises `NotFound` for others."""

    database: Database

    async def put(
        self,
        thread_id: str,
        run_id: str,
        who: Principal,
        rating: Rating,
        comment: str | None = None,
        message_id: str | None = None,
        *,
        may_exist: bool = True,
    ) -> RunFeedback:
        """Rate a run, or one of its messages; replace an earlier rating.

        Raises:
            Conflict: There is a rating already, and it may not exist.
        """
        now = datetime.now(UTC)
        new = RunFeedback(new_id(), who.user_id, thread_id, run_id, message_id, rating, comment, now, now)
        return await self.database.write(partial(rows.put_feedback, new=new, may_exist=may_exist))

    async def list(self, thread_id: str, run_id: str, who: Principal) -> Sequence[RunFeedback]:
        """Return the feedback on a run, oldest first."""
        query = partial(rows.list_feedback, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        return await self.database.read(query)

    async def stats(self, thread_id: str, run_id: str, who: Principal) -> RunFeedbackStats:
        """Return the numbers of positive and negative ratings of a run."""
        query = partial(rows.count_feedback, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        return await self.database.read(query)

    async def delete(self, thread_id: str, run_id: str, who: Principal, feedback_id: str | None = None) -> None:
        """Delete one feedback entry on a run, or all."""
        change = partial(rows.delete_feedback, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        await self.database.write(partial(change, feedback_id=feedback_id))
