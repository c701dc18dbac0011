"""Deletion of a person with everything they have, finished by another process after a crash."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import UsersConfig
from deerflow.domain.identity import Principal
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import deletions as rows
from deerflow.persistence.queries.audit import AuditEvent, erase_details, recorded
from deerflow.runtime.background import wait_for_event
from deerflow.runtime.threads.deletion import ANSWER_S, CLOSE_S, Deletions

if TYPE_CHECKING:
    from deerflow.accounts.accounts import Accounts

logger = logging.getLogger(__name__)

THREADS_AT_ONCE = 20
RETRY_S = 5.0
"""Pause before what could not be deleted is tried again."""

UserCleanup = Callable[[str], Awaitable[object]]
"""(user) → nothing of one kind is left of them. Each may be called again for the same user."""


class UserDeletions:
    """Deletes people. The account ends at once; the deletion is recorded first, so that it is always finished."""

    def __init__(
        self,
        database: Database,
        accounts: "Callable[[], Accounts]",
        deletions: Deletions,
        cleanups: Sequence[UserCleanup],
        on_erased: UserCleanup,
        settings: Settings[UsersConfig],
    ) -> None:
        """`cleanups` delete what is neither a thread nor a row with an owner; `on_erased` is called after the rows."""
        self._database = database
        self._accounts = accounts
        self._deletions = deletions
        self._cleanups = cleanups
        self._on_erased = on_erased
        self._settings = settings
        self._tasks: dict[str, asyncio.Task[bool]] = {}

    async def delete(self, user_id: str, by: Principal | None = None) -> bool:
        """Delete a person. Return False if the rest of their data is deleted later.

        Raises:
            NotFound: There is no such account.
            Conflict: No active administrator would be left.
        """
        await self._accounts().delete(user_id, self._deletions.process, by)
        logger.info("user %s is deleted", user_id)
        return await self._erase(user_id)

    async def finish(self) -> bool:
        """Finish deletions begun here or in a dead process. Return whether none is left."""
        found = await self._database.read(rows.list_user_deletions)
        own, is_done = self._deletions.process, True
        dead = await self._deletions.liveness.find_dead({each.process for each in found if each.process != own})
        for mark in found:
            if mark.process in dead and not await self._database.write(
                partial(rows.claim_user_deletion, mark=mark, process=own)
            ):
                continue
            if mark.process in dead or mark.process == own:
                is_done = await self._erase(mark.user_id) and is_done
        return is_done

    async def aclose(self) -> None:
        """Wait for active deletions for a while; the next process finishes the rest."""
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)
        for task in tasks:
            task.cancel()

    async def _erase(self, user_id: str) -> bool:
        """Erase the data even if the caller is gone. Return whether all of it was erased in time."""
        task = self._tasks.get(user_id)
        if task is None:
            task = self._tasks[user_id] = asyncio.create_task(self._erase_all(user_id), name="delete a user")
            task.add_done_callback(partial(self._end, user_id))
        done, _ = await asyncio.wait({task}, timeout=ANSWER_S)
        return bool(done) and not task.cancelled() and task.exception() is None and task.result()

    async def _erase_all(self, user_id: str) -> bool:
        while not await self._try_to_erase(user_id):
            await wait_for_event(asyncio.Event(), RETRY_S)
        return True

    async def _try_to_erase(self, user_id: str) -> bool:
        if not await self._delete_threads(user_id):
            return False
        for clean_up in self._cleanups:
            await clean_up(user_id)
        keeps_usage = self._settings.current.deleted_usage == "anonymous"
        for table in rows.list_owned_tables():
            change = partial(rows.delete_owned_rows, table=table, owner=user_id, keeps_usage=keeps_usage)
            await self._database.write(change)
        await self._database.write(partial(erase_details, user_id=user_id))
        await self._on_erased(user_id)
        if await self._database.read(partial(rows.has_unfinished_parts, owner=user_id)):
            await self._deletions.finish()
            return False
        if not await self._deletions.scrub():
            logger.warning("a deleted user has left bytes in files that are in use; they go later")
            return False
        erased = AuditEvent("account.erased", None, user_id)
        await self._database.write(recorded(partial(rows.finish_user_deletion, user_id=user_id), erased))
        return True

    async def _delete_threads(self, user_id: str) -> bool:
        """Stop the runs of a person and delete their threads; return False if some are still busy."""
        who, query = Principal(user_id), partial(rows.list_owned_threads, owner=user_id, limit=THREADS_AT_ONCE)
        while thread_ids := await self._database.read(query):
            result = await self._deletions.delete_several(thread_ids, who, stop_runs=True, cause="account")
            if not result.deleted and not result.unfinished:
                return False
        return True

    def _end(self, user_id: str, task: asyncio.Task[bool]) -> None:
        self._tasks.pop(user_id, None)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("what was left of a deleted user could not be removed", exc_info=problem)
