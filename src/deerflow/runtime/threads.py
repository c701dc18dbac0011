"""Threads: made, found, shown, changed, copied and deleted."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.domain.errors import NotFound
from deerflow.domain.events import FINAL_EVENT, EventName, StreamEvent
from deerflow.domain.ids import check_thread_id, new_id
from deerflow.domain.principal import Principal
from deerflow.domain.runs import DisconnectMode, MultitaskStrategy, RunRecord, RunRequest, RunStatus
from deerflow.domain.threads import ThreadFilter, ThreadRecord
from deerflow.persistence import outside
from deerflow.persistence import threads as rows
from deerflow.persistence.database import Database
from deerflow.persistence.events import LoggedEvent, all_changes
from deerflow.persistence.runs import StoredRequest
from deerflow.persistence.said import Place, SaidPage, page_of, values_told
from deerflow.runtime.changes import Changes, DerivedState
from deerflow.runtime.serialization import to_json
from deerflow.runtime.states import GraphSource, States, StateView, config_of, open_questions, questions_by_task

__all__ = ["StateView", "FilesOfThreads", "Threads", "config_of", "open_questions"]


@dataclass(frozen=True, slots=True)
class FilesOfThreads:
    """What becomes of a thread's files and of what runs for it."""

    forget: Callable[[str, str], Awaitable[None]]
    """(thread, user)"""
    copy: Callable[[str, str, str], Awaitable[None]]
    """(from which thread, to which, user)"""


class Threads:
    """Every method sees only what belongs to `who`."""

    def __init__(
        self, database: Database, checkpointer: BaseCheckpointSaver[str], graphs: GraphSource, files: FilesOfThreads
    ) -> None:
        self._database = database
        self._checkpointer = checkpointer
        self._states = States(checkpointer, graphs)
        self._files = files

    async def create(
        self, who: Principal, thread_id: str | None, metadata: Mapping[str, object], *, may_exist: bool
    ) -> ThreadRecord:
        """Begin a thread, or return the one there is when it `may_exist`."""
        name = check_thread_id(thread_id or new_id())
        change = partial(rows.begin_thread, thread_id=name, owner=who.user_id, metadata=metadata, may_exist=may_exist)
        return await self._database.write(change)

    async def get(self, thread_id: str, who: Principal) -> ThreadRecord:
        """The thread, or `NotFound`."""
        return await self._database.read(partial(rows.find_thread, thread_id=thread_id, owner=who.user_id))

    async def search(
        self, who: Principal, limit: int, offset: int, wanted: ThreadFilter = ThreadFilter()
    ) -> Sequence[ThreadRecord]:
        """Threads, latest activity first unless `wanted` says otherwise."""
        mine = partial(rows.search_threads, owner=who.user_id, limit=limit, offset=offset, wanted=wanted)
        return await self._database.read(mine)

    async def count(self, who: Principal, wanted: ThreadFilter) -> int:
        """How many threads there are of that kind."""
        return await self._database.read(partial(rows.count_threads, owner=who.user_id, wanted=wanted))

    async def update(self, thread_id: str, who: Principal, metadata: Mapping[str, object]) -> ThreadRecord:
        """Add to the thread's metadata."""
        change = partial(rows.merge_metadata, thread_id=thread_id, owner=who.user_id, metadata=metadata)
        return await self._database.write(change)

    async def delete(self, thread_id: str, who: Principal) -> None:
        """Remove the thread and all that belongs to it.

        Raises:
            Conflict: a run is under way.
        """
        await self._database.write(partial(rows.delete_idle_thread, thread_id=thread_id, owner=who.user_id))
        await self._checkpointer.adelete_thread(thread_id)
        await self._files.forget(thread_id, who.user_id)

    async def copy(self, thread_id: str, who: Principal, upto: str | None = None) -> ThreadRecord:
        """A new thread that holds what this one does, or did at checkpoint `upto`, with its files as they are.

        Raises:
            Conflict: a run is under way.
            NotFound: there is no such checkpoint.
        """
        copy_id = new_id()
        await self._refuse_when_busy(thread_id, who)
        if upto is not None:
            await self._states.at(thread_id, upto)
        await self._database.write(partial(outside.begin_copy, thread_id=thread_id, owner=who.user_id, copy_id=copy_id))
        try:
            await self._files.copy(thread_id, copy_id, who.user_id)
            await self._record(copy_id, who, await self._states.copy(thread_id, copy_id, upto), "fork")
        except BaseException:  # half a copy is none
            await self.delete(copy_id, who)
            raise
        return await self.get(copy_id, who)

    async def state(self, thread_id: str, who: Principal, checkpoint_id: str | None = None) -> StateView:
        """What the thread holds now, or held at a checkpoint."""
        await self.get(thread_id, who)
        return await self._states.at(thread_id, checkpoint_id)

    async def questions(self, thread_id: str, who: Principal) -> bytes:
        """What a paused run asks, by the step that asks it, as JSON."""
        await self.get(thread_id, who)
        return to_json(await questions_by_task(self._checkpointer, thread_id))

    async def can_go_on(self, thread_id: str, who: Principal, checkpoint_id: str | None) -> bool:
        """Whether a step waits to be taken."""
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
    ) -> str:
        """Change what the thread holds, as if one of the agent's steps had; the checkpoint that was made.

        Raises:
            Conflict: a run is under way.
            InvalidRequest: there is no such value or step.
        """
        await self._refuse_when_busy(thread_id, who)
        if checkpoint_id is not None:
            await self._states.at(thread_id, checkpoint_id)
        update = await self._states.update(thread_id, values, as_node, checkpoint_id)
        await self._record(thread_id, who, update.changes, "update")
        return update.checkpoint_id

    async def messages(self, thread_id: str, who: Principal) -> bytes:
        """Everything said in the thread, also what the agent no longer has in view, as JSON."""
        await self.get(thread_id, who)
        said = DerivedState(keeps_removed=True)
        for changes in await self._database.read(partial(all_changes, thread_id=thread_id)):
            said.apply(changes)
        return said.to_json()

    async def messages_page(self, thread_id: str, who: Principal, before: Place | None, limit: int) -> SaidPage:
        """The last messages said in the thread, or the last before a place."""
        await self.get(thread_id, who)
        return await self._database.read(partial(page_of, thread_id=thread_id, before=before, limit=limit))

    async def values(self, thread_id: str, who: Principal) -> dict[str, object]:
        """What the thread holds besides messages, as its journal tells it."""
        await self.get(thread_id, who)
        return await self._database.read(partial(values_told, thread_id=thread_id))

    async def history(
        self,
        thread_id: str,
        who: Principal,
        limit: int,
        before: str | None = None,
        metadata: Mapping[str, object] | None = None,
        upto: str | None = None,
    ) -> Sequence[StateView]:
        """What the thread held after each step, newest first."""
        await self.get(thread_id, who)
        return await self._states.history(thread_id, limit, before, metadata or {}, upto)

    async def unfinished_runs(self, who: Principal, thread_id: str | None = None) -> Sequence[RunRecord]:
        """Runs that are under way or wait, oldest first: of one thread, or of all."""
        mine = partial(outside.unfinished_of, owner=who.user_id, thread_id=thread_id)
        return await self._database.read(mine)

    async def _refuse_when_busy(self, thread_id: str, who: Principal) -> None:
        check = partial(outside.refuse_when_busy, thread_id=thread_id, owner=who.user_id)
        await self._database.read(check)

    async def _record(self, thread_id: str, who: Principal, changes: Changes, source: str) -> None:
        """Have the journal know what nobody ran: readers of later runs begin with what it says."""
        run = ended_run(thread_id, who, source)
        told: list[tuple[EventName, bytes]] = [
            ("metadata", to_json({"run_id": run.run_id, "thread_id": thread_id})),
            ("changes", changes.to_json()),
            (FINAL_EVENT, b"null"),
        ]
        events = [LoggedEvent(run.run_id, StreamEvent(seq, *each), run.created_at) for seq, each in enumerate(told, 1)]
        request = StoredRequest(asdict(RunRequest(thread_id, goes_on=True)), "")
        await self._database.write(partial(outside.record_change, run=run, request=request, events=events))


def ended_run(thread_id: str, who: Principal, source: str) -> RunRecord:
    """The record of a change that no agent made."""
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
