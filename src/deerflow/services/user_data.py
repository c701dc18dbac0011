"""Data of users: their profile, a key-value store for clients, feedback, and permissions of tools in threads."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import Rating, RunFeedback, RunFeedbackStats
from deerflow.domain.threads import Namespace, StoredItem, check_namespace
from deerflow.domain.tools import ToolPermission
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.threads import find_thread
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
        content = await self._database.look_up(partial(read_profile, owner=owner))
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

    async def list_thread(self, thread_id: str, who: Principal) -> Sequence[RunFeedback]:
        """Return the feedback on all runs of a thread, oldest first."""
        return await self.database.read(partial(rows.list_thread_feedback, thread_id=thread_id, owner=who.user_id))

    async def stats(self, thread_id: str, run_id: str, who: Principal) -> RunFeedbackStats:
        """Return the numbers of positive and negative ratings of a run."""
        query = partial(rows.count_feedback, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        return await self.database.read(query)

    async def delete(self, thread_id: str, run_id: str, who: Principal, feedback_id: str | None = None) -> None:
        """Delete one feedback entry on a run, or all."""
        change = partial(rows.delete_feedback, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        await self.database.write(partial(change, feedback_id=feedback_id))


MAX_PERMISSIONS = 1000


@dataclass(frozen=True, slots=True)
class GrantedPermission:
    """Permission of a thread as it is stored."""

    permission_id: str
    permission: ToolPermission
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PermissionService:
    """Tool calls that users have allowed in a thread. They are deleted with the thread, and a copy has none.

    Every method is restricted to the threads of `who`, and raises `NotFound` for others.
    """

    database: Database

    async def list(self, thread_id: str, who: Principal) -> Sequence[GrantedPermission]:
        """Return the permissions of a thread, oldest first."""
        await self.database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
        items = await KeyValueStore(self.database).search(
            who, permission_namespace(thread_id), {}, MAX_PERMISSIONS, offset=0
        )
        return [GrantedPermission(item.key, to_permission(item.value), item.created_at) for item in items]

    async def revoke(self, thread_id: str, who: Principal, permission_id: str) -> None:
        """Delete a permission; the next such call needs approval again.

        Raises:
            NotFound: There is no such permission.
        """
        if permission_id not in [given.permission_id for given in await self.list(thread_id, who)]:
            raise NotFound(f"thread {thread_id!r} has no permission {permission_id!r}")
        await KeyValueStore(self.database).delete(who, permission_namespace(thread_id), permission_id)

    def for_thread(self, thread_id: str, owner: str) -> "StoredPermissions":
        """Return the permissions of a thread for its runs."""
        return StoredPermissions(KeyValueStore(self.database), thread_id, Principal(owner))


@dataclass(frozen=True, slots=True)
class StoredPermissions:
    """Permissions of one thread, read again for every call: they may be revoked while a run is active."""

    store: KeyValueStore
    thread_id: str
    who: Principal

    async def allows(self, wanted: ToolPermission) -> bool:
        """Return whether the user has allowed such calls."""
        found = await self.store.get(self.who, permission_namespace(self.thread_id), permission_key(wanted))
        return found is not None and to_permission(found.value) == wanted

    async def grant(self, permission: ToolPermission) -> None:
        """Allow such calls in the thread from now on."""
        value = {"tool": permission.tool, "rule": permission.rule, "hosts": [*permission.hosts]}
        await self.store.put(self.who, permission_namespace(self.thread_id), permission_key(permission), value)


def permission_namespace(thread_id: str) -> Sequence[str]:
    """Return the namespace of the store for the permissions of a thread, which is deleted with it."""
    return ("threads", thread_id, "permissions")


def permission_key(permission: ToolPermission) -> str:
    """Return the id of a permission: equal permissions have the same."""
    parts = (permission.tool, permission.rule, *permission.hosts)
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def to_permission(value: Mapping[str, object]) -> ToolPermission:
    """Return a stored value as a permission."""
    hosts = value.get("hosts")
    names = tuple(str(host) for host in hosts) if isinstance(hosts, list) else ()
    return ToolPermission(str(value.get("tool", "")), str(value.get("rule", "")), names)
