"""Threads: create, find, update, copy and delete."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import Principal, check_thread_id, new_id
from deerflow.domain.runs import (
    FINAL_EVENT,
    DisconnectMode,
    EventName,
    MultitaskStrategy,
    RunEvent,
    RunRecord,
    RunRequest,
    RunStatus,
)
from deerflow.domain.threads import ThreadFilter, ThreadRecord
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import threads as rows
from deerflow.persistence.queries import transactions as outside
from deerflow.persistence.queries.events import LoggedEvent, read_changes
from deerflow.persistence.queries.messages import MessageCursor, MessageSlice, read_page, read_values
from deerflow.persistence.queries.runs import StoredRequest
from deerflow.runtime.journal.serialization import to_json
from deerflow.runtime.journal.state_diff import Changes, DerivedState
from deerflow.runtime.threads.deletion import DeletionResult, Deletions
from deerflow.runtime.threads.states import (
    StateGraphs,
    States,
    StateView,
    interrupts_by_task,
)
from deerflow.runtime.transcript import Transcript

CopyFiles = Callable[[str, str, str], Awaitable[None]]
"""(from which thread, to which, user)"""


class Threads:
    """Thread service. Every method only sees threads of `who`."""

    def __init__(
        self,
        database: Database,
        checkpointer: BaseCheckpointSaver[str],
        graphs: StateGraphs,
        copy_files: CopyFiles,
        deletions: Deletions,
    ) -> None:
        self._database = database
        self._checkpointer = checkpointer
        self._states = States(checkpointer, graphs)
        self._copy_files = copy_files
        self._deletions = deletions

    async def create(
        self, who: Principal, thread_id: str | None, metadata: Mapping[str, object], *, may_exist: bool
    ) -> ThreadRecord:
        """Create a thread, or return the existing one if it `may_exist`."""
        name = check_thread_id(thread_id or new_id())
        change = partial(rows.create_thread, thread_id=name, owner=who.user_id, metadata=metadata, may_exist=may_exist)
        return await self._database.write(change)

    async def get(self, thread_id: str, who: Principal) -> ThreadRecord:
        """Return the thread, or raise `NotFound`."""
        return await self._database.read(partial(rows.find_thread, thread_id=thread_id, owner=who.user_id))

    async def search(
        self, who: Principal, limit: int, offset: int, wanted: ThreadFilter = ThreadFilter()
    ) -> Sequence[ThreadRecord]:
        """Return threads, latest activity first unless `wanted` says otherwise."""
        query = partial(rows.search_threads, owner=who.user_id, limit=limit, offset=offset, wanted=wanted)
        return await self._database.read(query)

    async def count(self, who: Principal, wanted: ThreadFilter) -> int:
        """Return the number of matching threads."""
        return await self._database.read(partial(rows.count_threads, owner=who.user_id, wanted=wanted))

    async def update(self, thread_id: str, who: Principal, metadata: Mapping[str, object]) -> ThreadRecord:
        """Merge metadata into the thread."""
        change = partial(rows.merge_metadata, thread_id=thread_id, owner=who.user_id, metadata=metadata)
        return await self._database.write(change)

    async def confirm(self, thread_id: str, who: Principal) -> None:
        """Check that a thread still exists after a file was added; if not, delete the file.

        Raises:
            NotFound: the thread was deleted meanwhile.
        """
        try:
            await self.get(thread_id, who)
        except NotFound:
            await self._deletions.delete_leftovers(thread_id, who)
            raise

    async def delete(self, thread_id: str, who: Principal, *, stop_runs: bool = False) -> bool:
        """Delete the thread and its resources. Return False if some will be deleted later.

        Raises:
            Conflict: a run is active and is not to be cancelled.
        """
        return await self._deletions.delete(thread_id, who, stop_runs=stop_runs)

    async def delete_several(
        self, thread_ids: Collection[str], who: Principal, *, stop_runs: bool = False
    ) -> DeletionResult:
        """Delete threads and their resources."""
        return await self._deletions.delete_several(thread_ids, who, stop_runs=stop_runs)

    async def copy(
        self,
        thread_id: str,
        who: Principal,
        upto: str | None = None,
        *,
        title: str | None = None,
        is_temporary: bool = False,
    ) -> ThreadRecord:
        """Create a copy of the thread, or of its state at checkpoint `upto`, with its current files.

        `is_temporary`: a temporary copy for a side question, without files. With a checkpoint, a run may be active.

        Raises:
            Conflict: a run is active.
            NotFound: there is no such checkpoint.
        """
        copy_id = new_id()
        if is_temporary and upto is not None:
            await self.get(thread_id, who)
        else:
            await self.check_idle(thread_id, who)
        if upto is not None:
            await self._states.at(thread_id, upto)
        await self._database.write(
            partial(
                outside.create_copy,
                thread_id=thread_id,
                owner=who.user_id,
                copy_id=copy_id,
                title=title,
                temporary=is_temporary,
            )
        )
        try:
            if not is_temporary:
                await self._copy_files(thread_id, copy_id, who.user_id)
            await self._record(copy_id, who, await self._states.copy(thread_id, copy_id, upto), "fork")
        except BaseException:  # half a copy is none
            await self._deletions.delete_leftovers(copy_id, who)
            raise
        return await self.get(copy_id, who)

    async def state(self, thread_id: str, who: Principal, checkpoint_id: str | None = None) -> StateView:
        """Return the current state with the title of the thread, or the state at a checkpoint."""
        thread = await self.get(thread_id, who)
        return await self._states.at(thread_id, checkpoint_id, thread.title if checkpoint_id is None else None)

    async def questions(self, thread_id: str, who: Principal) -> bytes:
        """Return the interrupts of a paused run by task, as JSON."""
        await self.get(thread_id, who)
        return to_json(await interrupts_by_task(self._checkpointer, thread_id))

    async def has_next_step(self, thread_id: str, who: Principal, checkpoint_id: str | None) -> bool:
        """Return whether the thread has a pending step."""
        try:
            return bool((await self.state(thread_id, who, checkpoint_id)).next)
        except NotFound:
            return False

    async def update_state(
        self,
        thread_id: str,
        who: Principal,
        values: Mapping[str, object],
        as_node: str | None = None,
        checkpoint_id: str | None = None,
        source: str = "update",
    ) -> str:
        """Update the state as one of the agent's steps would. Return the new checkpoint.

        `source` is recorded in the metadata of the journal entry.

        Raises:
            Conflict: a run is active.
            InvalidRequest: the value or step does not exist.
        """
        await self.check_idle(thread_id, who)
        if checkpoint_id is not None:
            await self._states.at(thread_id, checkpoint_id)
        update = await self._states.update(thread_id, values, as_node, checkpoint_id)
        try:
            await self._record(thread_id, who, update.changes, source)
        except NotFound:  # it was deleted meanwhile
            await self._deletions.delete_leftovers(thread_id, who)
            raise
        return update.checkpoint_id

    async def messages(self, thread_id: str, who: Principal) -> bytes:
        """Return all messages of the thread as JSON, including those that left the model's context."""
        await self.get(thread_id, who)
        said = DerivedState(keeps_removed=True)
        for changes in await self._database.read(partial(read_changes, thread_id=thread_id)):
            said.apply(changes)
        return said.to_json()

    async def messages_page(
        self, thread_id: str, who: Principal, before: MessageCursor | None, limit: int
    ) -> MessageSlice:
        """Return the last messages of the thread, or the last before a position."""
        await self.get(thread_id, who)
        return await self._database.read(partial(read_page, thread_id=thread_id, before=before, limit=limit))

    async def find_owner(self, thread_id: str) -> Principal:
        """Return the owner of any thread, for administrators; raises `NotFound`."""
        return Principal(await self._database.read(partial(rows.find_owner, thread_id=thread_id)))

    async def values(self, thread_id: str, who: Principal) -> dict[str, object]:
        """Return the state without messages, as recorded in the journal."""
        await self.get(thread_id, who)
        return await self._database.read(partial(read_values, thread_id=thread_id))

    async def history(
        self,
        thread_id: str,
        who: Principal,
        limit: int,
        before: str | None = None,
        metadata: Mapping[str, object] | None = None,
        upto: str | None = None,
    ) -> Sequence[StateView]:
        """Return the states after each step, newest first."""
        await self.get(thread_id, who)
        return await self._states.history(thread_id, limit, before, metadata or {}, upto)

    async def unfinished_runs(self, who: Principal, thread_id: str | None = None) -> Sequence[RunRecord]:
        """Return active and pending runs, oldest first: of one thread, or of all."""
        query = partial(outside.list_unfinished_by_owner, owner=who.user_id, thread_id=thread_id)
        return await self._database.read(query)

    async def check_idle(self, thread_id: str, who: Principal) -> None:
        """Raise `Conflict` if a run is active, and `NotFound` if there is no such thread.

        Raises:
            StorageUnavailable: The database cannot be written, so that no part of a change may begin.
        """
        check = partial(outside.check_not_busy, thread_id=thread_id, owner=who.user_id)
        await self._database.write(check)

    async def _record(self, thread_id: str, who: Principal, changes: Changes, source: str) -> None:
        """Record a manual update in the journal, so that readers of later runs start from it."""
        run = manual_run(thread_id, who, source)
        logged: list[tuple[EventName, bytes]] = [
            ("metadata", to_json({"run_id": run.run_id, "thread_id": thread_id})),
            ("changes", changes.to_json()),
            (FINAL_EVENT, b"null"),
        ]
        events = [LoggedEvent(run.run_id, RunEvent(seq, *each), run.created_at) for seq, each in enumerate(logged, 1)]
        request = StoredRequest(asdict(RunRequest(thread_id, goes_on=True)), "")
        said = Transcript()
        said.add(changes.messages)
        record = partial(outside.record_manual_update, run=run, request=request, events=events)
        await self._database.write(
            partial(record, messages=list(said.messages.values()), removed_ids=list(changes.removed))
        )


def manual_run(thread_id: str, who: Principal, source: str) -> RunRecord:
    """Return the record of a manual update."""
    now = datetime.now(UTC)
    return RunRecord(
        run_id=new_id(),
        thread_id=thread_id,
        owner=who.user_id,
        assistant_id="lead_agent",
        status=RunStatus.SUCCESS,
        on_disconnect=DisconnectMode.CONTINUE,
        multitask_strategy=MultitaskStrategy.REJECT,
        process="",
        attempt=1,
        metadata={"source": source},
        error=None,
        created_at=now,
        updated_at=now,
    )
