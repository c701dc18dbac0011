"""Where every run enters, whoever asks for it, and where its readers come for its events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from langgraph.types import Interrupt

from deerflow.domain.errors import Conflict, RunLost, StateTooNew, StorageUnavailable
from deerflow.domain.events import FINAL_EVENT, StreamEvent
from deerflow.domain.ids import check_thread_id
from deerflow.domain.principal import Principal
from deerflow.domain.runs import (
    CancelAction,
    MultitaskStrategy,
    Resume,
    RunRecord,
    RunRequest,
    RunStatus,
    StreamMode,
)
from deerflow.persistence import runs as run_rows
from deerflow.persistence.admission import Finish, accept_run, finish_run
from deerflow.persistence.database import Database
from deerflow.persistence.events import LoggedEvent, earlier_changes, nothing_else
from deerflow.persistence.threads import find_thread
from deerflow.runtime.changes import DerivedState
from deerflow.runtime.journal import Journal
from deerflow.runtime.runs.answers import by_question
from deerflow.runtime.runs.job import HANDED_OVER, Job, read_request, stored_job
from deerflow.runtime.runs.schemas import messages_of, new_run, title_from, to_stored
from deerflow.runtime.runs.worker import RunWorker
from deerflow.runtime.serialization import to_json
from deerflow.runtime.stream_bridge.bridge import HEARTBEAT_S, StreamBridge
from deerflow.runtime.titles import Namer
from deerflow.runtime.waiting import Beside, surely
from deerflow.tracing.log_context import logged_as
from deerflow.tracing.metrics import Metrics

logger = logging.getLogger(__name__)

STOP_LIMIT_S = 10.0
"""How long a stopped run may take to put its things away."""
ANSWER_LIMIT_S = 40.0
"""How long another process may take to stop a run, or be found dead."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A run that this process carries out."""

    job: Job
    task: asyncio.Task[None]


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
        check_state: Callable[[str], Awaitable[None]],
        process: str,
        metrics: Metrics,
    ) -> None:
        """`questions` finds what a thread's paused run asks; `process` is who we are.

        `check_state` raises `StateTooNew` for a thread that this program cannot go on with.

        `namer` is given each run that went well, when nobody waits for it any more.
        """
        self._database = database
        self._journal = journal
        self._bridge = bridge
        self._worker = worker
        self._namer = namer
        self._questions = questions
        self._check_state = check_state
        self._process = process
        self._metrics = metrics
        self._under_way: dict[str, UnderWay] = {}
        self._beside = Beside()
        self._is_closing = False

    async def create_or_reject(self, request: RunRequest, who: Principal) -> RunRecord:
        """Accept a run; it is recorded when this returns, and under way or waiting for its turn.

        Raises:
            Conflict: the thread has a run under way and this one may not wait.
            StateTooNew: the thread was used by a newer version of this program.
            NotFound: the thread does not exist and is not to be created, or is somebody else's.
            InvalidRequest: the request makes no sense.
        """
        check_thread_id(request.thread_id)
        await self._refuse_unreadable(request.thread_id, who)
        if request.resume is not None:
            request = replace(request, resume=Resume(await self._fitting(request.thread_id, request.resume, who)))
        messages = messages_of(request)
        run = new_run(request, who, self._process)
        first = StreamEvent(1, "metadata", to_json({"run_id": run.run_id, "thread_id": run.thread_id}))
        admission = await self._database.write(
            partial(
                accept_run,
                run=run,
                request=to_stored(request, messages),
                first=LoggedEvent(run.run_id, first, run.created_at),
                title=title_from(messages, self._namer.settings()),
                may_create_thread=request.create_thread,
            )
        )
        if not admission.is_new:
            return admission.run
        if admission.run.status is RunStatus.RUNNING:
            self._bridge.open(run.run_id, 0)
            self.begin(Job(admission.run, request, messages))
        self._bridge.publish(run.run_id, [first])
        if action := request.multitask_strategy.stops:
            await self._clear(admission.others, action)
        if request.multitask_strategy is MultitaskStrategy.STEER:
            self._tell_of_mail(admission.others)
        return admission.run

    async def _refuse_unreadable(self, thread_id: str, who: Principal) -> None:
        """Refuse a message that could not be answered rather than lose it; to others the thread does not exist."""
        try:
            await self._check_state(thread_id)
        except StateTooNew:
            await self._database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
            raise

    async def _fitting(self, thread_id: str, resume: Resume, who: Principal) -> dict[str, object]:
        """The answer, if it answers what was asked."""
        await self._database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
        return by_question(await self._questions(thread_id), resume.answer)

    def _tell_of_mail(self, others: Iterable[RunRecord]) -> None:
        """Have the run under way look for what somebody wants to say to it."""
        for run in others:
            if run.run_id in self._under_way:
                self._under_way[run.run_id].job.signals.has_mail = True
            elif run.status is RunStatus.RUNNING:
                self._bridge.tell(run.process)

    async def _clear(self, others: Iterable[RunRecord], action: CancelAction) -> None:
        """Have those stopped that have to go for a new run, as was ordered when that one was accepted.

        First those that wait, then the one under way.
        """
        for run in sorted(others, key=lambda other: other.status is RunStatus.RUNNING):
            if not await self._end_waiting(run) and self.request_stop(run.run_id, action) is None:
                self._bridge.tell(run.process)

    async def _end_waiting(self, run: RunRecord) -> bool:
        """End a run that has not begun; False when it has."""
        if run.status is not RunStatus.PENDING:
            return False
        ours = replace(run, process=self._process)  # so is the one whose turn it may be then
        end = StreamEvent(2, FINAL_EVENT, b"null")
        events = [LoggedEvent(run.run_id, end, datetime.now(UTC), run.attempt)]
        change = partial(finish_run, run=ours, events=events, status=RunStatus.INTERRUPTED, error=None)
        finish = await surely(self._database.write(change))
        if finish.is_recorded:
            self._bridge.publish(run.run_id, [end])
            self._bridge.publish_end(run.run_id)
        self._begin_next(finish)
        return finish.is_recorded

    async def get(self, thread_id: str, run_id: str, who: Principal) -> RunRecord:
        """The run, or `NotFound`."""
        query = partial(run_rows.find_run, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        return await self._database.read(query)

    async def list_by_thread(
        self, thread_id: str, who: Principal, limit: int = 10, offset: int = 0, status: RunStatus | None = None
    ) -> Sequence[RunRecord]:
        """The thread's runs, newest first."""
        mine = partial(run_rows.list_runs, thread_id=thread_id, owner=who.user_id)
        return await self._database.read(partial(mine, limit=limit, offset=offset, status=status))

    async def delete(self, thread_id: str, run_id: str, who: Principal) -> None:
        """Remove an ended run and its events; what it said stays in the thread.

        Raises:
            Conflict: it is under way.
        """
        change = partial(run_rows.delete_ended_run, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        await self._database.write(change)

    async def cancel(
        self, thread_id: str, run_id: str, who: Principal, action: CancelAction = CancelAction.INTERRUPT
    ) -> None:
        """Stop the run. It has reached its final status when this returns.

        Raises:
            Conflict: it had already ended, or its process does not answer.
        """
        run = await self.get(thread_id, run_id, who)
        if not await self._end_waiting(run) and not await self.stop(run_id, action):
            run = await self.get(thread_id, run_id, who)
            raise Conflict(f"run {run_id!r} has already ended with {run.status.value!r}")

    async def stop(self, run_id: str, action: CancelAction = CancelAction.INTERRUPT) -> bool:
        """Stop the run if it is under way, in whatever process, and wait for its end; whether it was.

        Raises:
            Conflict: its process does not answer.
        """
        task = self.request_stop(run_id, action)
        is_ordered = await self._order_stop(run_id, action, is_here=task is not None)
        if task is not None:
            await asyncio.wait({task}, timeout=STOP_LIMIT_S)
            return True
        if is_ordered:
            await self._until_ended(run_id)
        return is_ordered

    def stop_soon(self, run: RunRecord) -> None:
        """Have the run stopped, in whatever process it is: whoever wanted it is gone and cannot wait."""
        if not self._is_closing:
            self._beside.begin(self._let_go(run), f"the end of {run.run_id}")

    async def _let_go(self, run: RunRecord) -> None:
        if not await self._end_waiting(run):
            task = self.request_stop(run.run_id)
            await self._order_stop(run.run_id, CancelAction.INTERRUPT, is_here=task is not None)

    async def _order_stop(self, run_id: str, action: CancelAction, *, is_here: bool) -> bool:
        """Have other processes, and those after us, know that the run is to be stopped; False when it has ended."""
        try:
            process = await self._database.write(partial(run_rows.order_stop, run_id=run_id, action=action))
        except StorageUnavailable as problem:
            if not is_here:
                raise
            logger.error("run %s is stopped, but that could not be noted: %s", run_id, problem)
            return True
        if process is not None and not is_here:
            self._bridge.tell(process)
        return process is not None

    async def _until_ended(self, run_id: str) -> None:
        """Wait for another process to end a run."""
        events = self._bridge.subscribe(run_id, heartbeat_interval=1.0)
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S), aclosing(events):
                async for _ in events:
                    pass
        except TimeoutError:
            raise Conflict(f"run {run_id!r} is to be stopped, but its process has not answered yet") from None

    def request_stop(self, run_id: str, action: CancelAction = CancelAction.INTERRUPT) -> asyncio.Task[None] | None:
        """Have the run stopped if it is under way, without waiting; its task, if so."""
        found = self._under_way.get(run_id)
        if found is None:
            return None
        # A second cancel would interrupt the first one's putting away.
        if not found.task.cancelling():
            found.job.signals.action = action
            found.task.cancel()
        return found.task

    def under_way(self) -> Sequence[RunRecord]:
        """The runs that this process carries out."""
        return [each.job.run for each in self._under_way.values()]

    def look_for_mail(self) -> None:
        """Have every run look for what somebody wants to say to it, perhaps through another process."""
        for each in self._under_way.values():
            each.job.signals.has_mail = True

    def abandon(self, run_id: str) -> None:
        """Leave a run alone that another process has taken over: nothing more is written of it here."""
        found = self._under_way.get(run_id)
        if found is not None:
            found.job.signals.leaves_unfinished = True
            found.task.cancel()

    async def join(self, thread_id: str, run_id: str, who: Principal) -> RunRecord:
        """Wait for the run's end."""
        run = await self.get(thread_id, run_id, who)
        if run.status.is_final:
            return run
        async for _ in self.listen(run):
            pass
        return await self.get(thread_id, run_id, who)

    def listen(
        self, run: RunRecord, *, after: int = 0, heartbeat_s: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[StreamEvent]]:
        """The run's events after `after`, in groups as they come; an empty group is a sign of life."""
        return self._bridge.subscribe(run.run_id, last_event_id=after, heartbeat_interval=heartbeat_s)

    async def modes_of(self, run: RunRecord) -> Sequence[StreamMode]:
        """What the run was asked to tell its readers."""
        found = await self._database.read(partial(run_rows.read_claimed, run_id=run.run_id))
        return read_request(found.request).stream_modes

    async def state_before(self, run: RunRecord, after: int) -> DerivedState:
        """The thread's state as the run's event `after` left it."""
        query = partial(earlier_changes, thread_id=run.thread_id, run_id=run.run_id, upto=after)
        state = DerivedState()
        for changes in await self._database.read(query):
            state.apply(changes)
        return state

    def begin(self, job: Job) -> None:
        """Carry out a run that has been recorded as ours."""
        self._bridge.open(job.run.run_id, job.past.last_seq if job.past else 1)
        with logged_as(thread=job.run.thread_id, run=job.run.run_id):
            task = asyncio.create_task(self._carry_out(job), name=f"run {job.run.run_id}")
        self._under_way[job.run.run_id] = UnderWay(job, task)

    def begin_closing(self) -> None:
        """From now on readers that leave stop nothing: it is we who send them away."""
        self._is_closing = True
        self._bridge.begin_closing()

    async def aclose(self, drain_s: float = 0.0) -> None:
        """Give runs `drain_s` to end; those that do not are left for the next process to go on with."""
        self.begin_closing()
        self._beside.cancel()
        if drain_s and self._under_way:
            await asyncio.wait([each.task for each in self._under_way.values()], timeout=drain_s)
        for each in self._under_way.values():
            each.job.signals.leaves_unfinished = True
            each.task.cancel()
        tasks = [*(each.task for each in self._under_way.values()), *self._beside.tasks]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_LIMIT_S)

    async def _carry_out(self, job: Job) -> None:
        run, last_seq = job.run, job.past.last_seq if job.past else 1
        log = self._journal.open(run, last_seq, partial(self.abandon, run.run_id))
        try:
            status, finish = await self._worker.execute(job, log)
            if not finish.is_recorded:
                raise RunLost(f"run {run.run_id!r} is another process's now")
            logger.info("run %s of thread %s: %s", run.run_id, run.thread_id, status.value)
            self._count(run, status)
            if status is RunStatus.SUCCESS:
                self._beside.begin(self._namer.name(run, job.records.budget), f"title of {run.thread_id}")
            self._begin_next(finish)
        except (asyncio.CancelledError, RunLost):
            logger.info("run %s of thread %s is left to another process", run.run_id, run.thread_id)
            if self._is_closing:
                with suppress(StorageUnavailable, RunLost):
                    await log.commit("custom", HANDED_OVER, nothing_else)
        except Exception:
            # The log itself cannot be written: the run stays unfinished in it, and the next start goes on with it.
            logger.exception("run %s could not be ended", run.run_id)
        finally:
            self._bridge.publish_end(run.run_id)
            del self._under_way[run.run_id]

    def _count(self, run: RunRecord, status: RunStatus) -> None:
        self._metrics.runs_ended.labels(status.value).inc()
        self._metrics.run_seconds.observe((datetime.now(UTC) - run.created_at).total_seconds())

    def _begin_next(self, finish: Finish) -> None:
        if finish.next is not None:
            self.begin(stored_job(finish.next))
