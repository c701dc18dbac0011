"""Where every run enters, whoever asks for it, and where its readers come for its events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from langchain_core.messages import BaseMessage
from langgraph.types import Interrupt

from deerflow.domain.errors import Conflict
from deerflow.domain.events import StreamEvent
from deerflow.domain.ids import check_thread_id, new_id
from deerflow.domain.principal import Principal
from deerflow.domain.runs import Resume, RunRecord, RunRequest, RunStatus
from deerflow.persistence import runs as run_rows
from deerflow.persistence.admission import accept_run
from deerflow.persistence.database import Database
from deerflow.persistence.events import LoggedEvent, earlier_changes
from deerflow.persistence.threads import find_thread
from deerflow.runtime.changes import DerivedState
from deerflow.runtime.journal import Journal
from deerflow.runtime.runs.answers import by_question
from deerflow.runtime.runs.schemas import title_from, to_messages, to_stored
from deerflow.runtime.runs.worker import RunWorker
from deerflow.runtime.serialization import to_json
from deerflow.runtime.stream_bridge.bridge import HEARTBEAT_S, StreamBridge
from deerflow.runtime.titles import Namer

logger = logging.getLogger(__name__)

STOP_LIMIT_S = 10.0
"""How long a stopped run may take to put its things away."""


class RunManager:
    """Accepts runs, owns the tasks that carry them out, and shows what they log."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        bridge: StreamBridge,
        worker: RunWorker,
        namer: Namer,
        questions: Callable[[str], Awaitable[Sequence[Interrupt]]],
        process: str,
    ) -> None:
        """`questions` finds what a thread's paused run asks; `process` is who we are.

        `namer` is given each run that went well, when nobody waits for it any more.
        """
        self._database = database
        self._journal = journal
        self._bridge = bridge
        self._worker = worker
        self._namer = namer
        self._questions = questions
        self._process = process
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._namings: set[asyncio.Task[None]] = set()

    async def create_or_reject(self, request: RunRequest, who: Principal) -> RunRecord:
        """Accept a run; it is recorded when this returns, and under way.

        Raises:
            Conflict: the thread has a run under way.
            NotFound: the thread does not exist and is not to be created, or is somebody else's.
            InvalidRequest: the request makes no sense.
        """
        check_thread_id(request.thread_id)
        if request.resume is not None:
            request = replace(request, resume=Resume(await self._fitting(request.thread_id, request.resume, who)))
        messages = [] if request.resume else to_messages(request.messages)
        run = new_run(request, who, self._process)
        first = StreamEvent(1, "metadata", to_json({"run_id": run.run_id, "thread_id": run.thread_id}))
        title = title_from(messages, self._namer.settings())

        await self._database.write(
            partial(
                accept_run,
                run=run,
                request=to_stored(request, messages),
                first=LoggedEvent(run.run_id, first, run.created_at),
                title=title,
                may_create_thread=request.create_thread,
            )
        )
        self._bridge.publish(run.run_id, [first])
        self._tasks[run.run_id] = asyncio.create_task(self._carry_out(run, request, messages), name=f"run {run.run_id}")
        return run

    async def _fitting(self, thread_id: str, resume: Resume, who: Principal) -> dict[str, object]:
        """The answer, if it answers what was asked."""
        await self._database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
        return by_question(await self._questions(thread_id), resume.answer)

    async def get(self, thread_id: str, run_id: str, who: Principal) -> RunRecord:
        """The run, or `NotFound`."""
        query = partial(run_rows.find_run, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        return await self._database.read(query)

    async def list_by_thread(
        self, thread_id: str, who: Principal, limit: int = 10, offset: int = 0
    ) -> Sequence[RunRecord]:
        """The thread's runs, newest first."""
        query = partial(run_rows.list_runs, thread_id=thread_id, owner=who.user_id, limit=limit, offset=offset)
        return await self._database.read(query)

    async def cancel(self, thread_id: str, run_id: str, who: Principal) -> None:
        """Stop the run. It has reached its final status when this returns.

        Raises:
            Conflict: it had already ended.
        """
        run = await self.get(thread_id, run_id, who)
        if not await self.stop(run_id):
            ended = f"has already ended with {run.status.value!r}"
            raise Conflict(f"run {run_id!r} {ended if run.status.is_final else 'belongs to another process'}")

    async def stop(self, run_id: str) -> bool:
        """Stop the run if it is under way, and wait for its end; whether it was."""
        task = self.request_stop(run_id)
        if task is None:
            return False
        await asyncio.wait({task}, timeout=STOP_LIMIT_S)
        return True

    def request_stop(self, run_id: str) -> asyncio.Task[None] | None:
        """Have the run stopped if it is under way, without waiting; its task, if so."""
        task = self._tasks.get(run_id)
        # A second cancel would interrupt the first one's putting away.
        if task is not None and not task.cancelling():
            task.cancel()
        return task

    async def join(self, thread_id: str, run_id: str, who: Principal) -> RunRecord:
        """Wait for the run's end."""
        run = await self.get(thread_id, run_id, who)
        task = self._tasks.get(run_id)
        if task is not None:
            await asyncio.wait({task})
        return run if run.status.is_final else await self.get(thread_id, run_id, who)

    def listen(
        self, run: RunRecord, *, after: int = 0, heartbeat_s: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[StreamEvent]]:
        """The run's events after `after`, in groups as they come; an empty group is a sign of life."""
        return self._bridge.subscribe(run.run_id, last_event_id=after, heartbeat_interval=heartbeat_s)

    async def state_before(self, run: RunRecord, after: int) -> DerivedState:
        """The thread's state as the run's event `after` left it."""
        query = partial(earlier_changes, thread_id=run.thread_id, run_id=run.run_id, upto=after)
        state = DerivedState()
        for changes in await self._database.read(query):
            state.apply(changes)
        return state

    async def aclose(self) -> None:
        """Stop every run, keeping what each has said."""
        for naming in self._namings:
            naming.cancel()
        tasks = [*filter(None, [self.request_stop(run_id) for run_id in self._tasks]), *self._namings]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_LIMIT_S)

    async def _carry_out(self, run: RunRecord, request: RunRequest, messages: Sequence[BaseMessage]) -> None:
        log = self._journal.open(run.run_id, last_seq=1)
        try:
            status = await self._worker.execute(run, request, messages, log)
            logger.info("run %s of thread %s: %s", run.run_id, run.thread_id, status.value)
            if status is RunStatus.SUCCESS:
                self._name_thread(run)
        except Exception:
            # The log itself cannot be written: the run stays unfinished in it, and the next start ends it.
            logger.exception("run %s could not be ended", run.run_id)
        finally:
            self._bridge.publish_end(run.run_id)
            del self._tasks[run.run_id]

    def _name_thread(self, run: RunRecord) -> None:
        naming = asyncio.create_task(self._namer.name(run), name=f"title of {run.thread_id}")
        self._namings.add(naming)
        naming.add_done_callback(self._end_naming)

    def _end_naming(self, naming: asyncio.Task[None]) -> None:
        self._namings.discard(naming)
        if not naming.cancelled() and naming.exception() is not None:
            logger.warning("%s could not be had: %s", naming.get_name(), naming.exception())


def new_run(request: RunRequest, who: Principal, process: str) -> RunRecord:
    """The record of a run that is about to begin."""
    now = datetime.now(UTC)
    return RunRecord(
        run_id=new_id(),
        thread_id=request.thread_id,
        owner=who.user_id,
        assistant_id=request.assistant_id,
        status=RunStatus.RUNNING,
        on_disconnect=request.on_disconnect,
        process=process,
        metadata=request.metadata,
        error=None,
        created_at=now,
        updated_at=now,
    )
