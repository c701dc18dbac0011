"""Admission of runs, their tasks, and access to their events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from deerflow.domain.errors import Conflict, RunLost, StateTooNew, StorageUnavailable
from deerflow.domain.identity import Principal, check_thread_id
from deerflow.domain.runs import (
    FINAL_EVENT,
    CancelAction,
    MultitaskStrategy,
    RunEvent,
    RunRecord,
    RunRequest,
    RunStatus,
    StreamMode,
)
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import runs as run_rows
from deerflow.persistence.queries.events import LoggedEvent, do_nothing, read_earlier_changes
from deerflow.persistence.queries.threads import find_thread
from deerflow.persistence.queries.transactions import AdmissionChange, RunFinish, accept_run, admit_alone, finish_run
from deerflow.runtime.background import BackgroundTasks, shield_until_done
from deerflow.runtime.journal.journal import Journal
from deerflow.runtime.journal.serialization import to_json
from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.runtime.runs.hooks import RunHooks, Worker
from deerflow.runtime.runs.job import HANDED_OVER, ActiveRun, Job, ResolvedSettings, deserialize_request
from deerflow.runtime.runs.records import RunRecords
from deerflow.runtime.runs.recovery import restore_or_end, resume_when_possible
from deerflow.runtime.runs.request import (
    check_scopes,
    create_run_record,
    initial_title,
    match_resume,
    request_messages,
    serialize_request,
)
from deerflow.runtime.stream_bridge.local import HEARTBEAT_S, StreamBridge
from deerflow.tracing.logs import Metrics, add_log_context

logger = logging.getLogger(__name__)

STOP_LIMIT_S = 10.0
"""Time limit for the cleanup of a cancelled run."""
ANSWER_LIMIT_S = 40.0
"""Time limit for another process to cancel a run, or to be found dead."""


class RunManager:
    """Accepts runs, owns the tasks that execute them, and streams their events."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        bridge: StreamBridge,
        worker: Worker,
        hooks: RunHooks,
        process: str,
        metrics: Metrics,
    ) -> None:
        """Create a manager for the process named `process`."""
        self._database = database
        self._journal = journal
        self._bridge = bridge
        self._worker = worker
        self._hooks = hooks
        self._process = process
        self._metrics = metrics
        self._active: dict[str, ActiveRun] = {}
        self._background = BackgroundTasks()
        self._is_closing = False
        self._is_closed = False

    async def create_or_reject(
        self, request: RunRequest, who: Principal, actor: Principal | None = None, also: AdmissionChange = admit_alone
    ) -> RunRecord:
        """Accept a run in a thread of `who`. When this returns, the run is recorded and is active or pending.

        `actor` starts it and pays for it, if it is not `who`. `also` is part of the transaction that records it.

        Raises:
            Conflict: the thread has an active run and this one may not wait.
            StateTooNew: the thread was used by a newer version of this program.
            NotFound: the thread does not exist and is not to be created, or has another owner.
            InvalidRequest: the request is invalid.
            Forbidden: only the owner may allow calls of a tool for the whole thread.
            QuotaExceeded: a limit of the person is reached.
        """
        check_thread_id(request.thread_id)
        await self._check_readable(request.thread_id, who)
        if request.resume is not None or request.command is not None:
            await self._worker.load()  # the checks of these requests would import it on the event loop
        request, decisions = await match_resume(self._database, self._hooks.pending_interrupts, request, who)
        run = create_run_record(request, who, self._process, actor)
        check_scopes(decisions, is_owner=run.started_by is None)
        messages, settings = request_messages(request), await self._hooks.resolve_settings(run.actor)
        first = RunEvent(1, "metadata", to_json({"run_id": run.run_id, "thread_id": run.thread_id}))
        admission = await self._database.write(
            partial(
                accept_run,
                run=run,
                request=serialize_request(request, messages),
                first=LoggedEvent(run.run_id, first, run.created_at),
                title=initial_title(messages, settings.title),
                may_create_thread=request.create_thread and run.started_by is None,
                decisions=decisions,
                max_busy_threads=await self._hooks.check_quota(run.actor),
                also=also,
            )
        )
        if not admission.is_new:
            return admission.run
        if admission.run.status is RunStatus.RUNNING:
            self._bridge.open(run.run_id, 0)
            records = RunRecords(is_temporary=admission.is_temporary)
            self.begin(Job(admission.run, request, settings, messages, records=records))
        self._bridge.publish(run.run_id, [first])
        self._bridge.publish_run(run.thread_id)
        if action := request.multitask_strategy.cancel_action:
            await self._clear(admission.others, action)
        if request.multitask_strategy is MultitaskStrategy.STEER:
            self._notify_steering(admission.others)
        return admission.run

    def prepare(self) -> None:
        """Import what runs need in the background, so that the first one does not wait for it."""
        self._background.begin(self._worker.load(), "the import of the agents")

    def check_request(self, request: RunRequest) -> None:
        """Check what can be known of a request before it is accepted.

        Raises:
            InvalidRequest: the request is invalid.
        """
        check_thread_id(request.thread_id)
        request_messages(request)

    async def _check_readable(self, thread_id: str, who: Principal) -> None:
        """Refuse a message to a thread that this version cannot read. Other users get `NotFound`."""
        try:
            await self._hooks.check_state(thread_id)
        except StateTooNew:
            await self._database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
            raise

    def _notify_steering(self, others: Iterable[RunRecord]) -> None:
        """Tell the active run that a steering message is pending."""
        for run in others:
            if run.run_id in self._active:
                self._active[run.run_id].job.signals.has_pending_input = True
            elif run.status is RunStatus.RUNNING:
                self._bridge.tell(run.process)

    async def _clear(self, others: Iterable[RunRecord], action: CancelAction) -> None:
        """Cancel the runs that a new run replaces: pending ones first, then the active one."""
        for run in sorted(others, key=lambda other: other.status is RunStatus.RUNNING):
            if not await self._end_pending(run) and self.request_stop(run.run_id, action) is None:
                self._bridge.tell(run.process)

    async def _end_pending(self, run: RunRecord) -> bool:
        """End a run that has not started. Return False if it has."""
        if run.status is not RunStatus.PENDING:
            return False
        ours = replace(run, process=self._process)  # so is the next run of the thread
        end = RunEvent(2, FINAL_EVENT, b"null")
        events = [LoggedEvent(run.run_id, end, datetime.now(UTC), run.attempt)]
        change = partial(finish_run, run=ours, events=events, status=RunStatus.INTERRUPTED, error=None)
        finish = await shield_until_done(self._database.write(change))
        if finish.is_recorded:
            self._bridge.publish(run.run_id, [end])
            self._bridge.publish_end(run.run_id)
        await shield_until_done(self._begin_next(finish))
        return finish.is_recorded

    async def get(self, thread_id: str, run_id: str, who: Principal) -> RunRecord:
        """Return the run, or raise `NotFound`."""
        query = partial(run_rows.find_run, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        return await self._database.look_up(query)

    async def list_by_thread(
        self, thread_id: str, who: Principal, limit: int = 10, offset: int = 0, status: RunStatus | None = None
    ) -> Sequence[RunRecord]:
        """Return the runs of a thread, newest first."""
        query = partial(run_rows.list_runs, thread_id=thread_id, owner=who.user_id)
        return await self._database.read(partial(query, limit=limit, offset=offset, status=status))

    async def delete(self, thread_id: str, run_id: str, who: Principal) -> None:
        """Delete a run and its events, or raise `Conflict` if it is active. Its messages stay in the thread."""
        change = partial(run_rows.delete_ended_run, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        await self._database.write(change)

    async def cancel(
        self, thread_id: str, run_id: str, who: Principal, action: CancelAction = CancelAction.INTERRUPT
    ) -> None:
        """Cancel the run. It has its final status when this returns.

        Raises:
            Conflict: the run had already ended, or its process does not answer.
        """
        run = await self.get(thread_id, run_id, who)
        # Its task may still be here for a moment after its end was recorded.
        if run.status.is_final or not (await self._end_pending(run) or await self.stop(run_id, action)):
            run = await self.get(thread_id, run_id, who)
            raise Conflict(f"run {run_id!r} has already ended with {run.status.value!r}")

    async def stop(self, run_id: str, action: CancelAction = CancelAction.INTERRUPT) -> bool:
        """Cancel the run in whatever process executes it, wait for its end, and return whether it was active.

        Raises:
            Conflict: the process of the run does not answer, or the run ignores the cancellation.
        """
        task = self.request_stop(run_id, action)
        is_ordered = await self._record_stop(run_id, action, is_here=task is not None)
        if task is not None:
            await asyncio.wait({task}, timeout=STOP_LIMIT_S)
            if not task.done():
                raise Conflict(f"run {run_id!r} is to be stopped, but goes on; try again")
            return True
        if is_ordered:
            await self._wait_for_end(run_id)
        return is_ordered

    def cancel_in_background(self, run: RunRecord) -> None:
        """Cancel the run without waiting: the client that started it has disconnected."""
        if not self._is_closing:
            self._background.begin(self._cancel_detached(run), f"the end of {run.run_id}")

    async def _cancel_detached(self, run: RunRecord) -> None:
        if not await self._end_pending(run):
            task = self.request_stop(run.run_id)
            await self._record_stop(run.run_id, CancelAction.INTERRUPT, is_here=task is not None)

    async def _record_stop(self, run_id: str, action: CancelAction, *, is_here: bool) -> bool:
        """Record the cancellation for other processes and later ones. Return False if the run has ended."""
        try:
            process = await self._database.write(partial(run_rows.request_stop, run_id=run_id, action=action))
        except StorageUnavailable as problem:
            if not is_here:
                raise
            logger.error("run %s was cancelled, but that could not be recorded: %s", run_id, problem)
            return True
        if process is not None and not is_here:
            self._bridge.tell(process)
        return process is not None

    async def _wait_for_end(self, run_id: str) -> None:
        """Wait until another process has ended the run."""
        events = self._bridge.subscribe(run_id, heartbeat_interval=1.0)
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S), aclosing(events):
                async for _ in events:
                    pass
        except TimeoutError:
            raise Conflict(f"run {run_id!r} is to be stopped, but its process has not answered yet") from None

    def request_stop(self, run_id: str, action: CancelAction = CancelAction.INTERRUPT) -> asyncio.Task[None] | None:
        """Cancel the run if this process executes it, without waiting. Return its task."""
        found = self._active.get(run_id)
        if found is None:
            return None
        found.stop(action)
        return found.task

    async def resolve_settings(self, owner: str) -> ResolvedSettings:
        """Return the settings for a run of `owner` that begins now."""
        return await self._hooks.resolve_settings(owner)

    def active_runs(self) -> Sequence[RunRecord]:
        """Return the runs that this process executes."""
        return [each.job.run for each in self._active.values()]

    def check_steering(self) -> None:
        """Make every active run check for steering messages that other processes may have accepted."""
        for each in self._active.values():
            each.job.signals.has_pending_input = True

    def abandon(self, run_id: str) -> None:
        """Stop executing a run that another process has taken over, without writing anything more."""
        found = self._active.get(run_id)
        if found is not None:
            found.hand_over()

    async def join(self, thread_id: str, run_id: str, who: Principal) -> RunRecord:
        """Wait for the end of the run."""
        run = await self.get(thread_id, run_id, who)
        if run.status.is_final:
            return run
        async for _ in self.listen(run):
            pass
        return await self.get(thread_id, run_id, who)

    def listen(
        self, run: RunRecord, *, after: int = 0, heartbeat_s: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[RunEvent]]:
        """Yield the events of the run after `after` in groups; an empty group is a heartbeat."""
        return self._bridge.subscribe(run.run_id, last_event_id=after, heartbeat_interval=heartbeat_s)

    def watch(self, thread_id: str, *, heartbeat_s: float = HEARTBEAT_S) -> AsyncGenerator[bool]:
        """Yield True when the thread may have a new run, for the first time at once, and False as a heartbeat."""
        return self._bridge.watch(thread_id, heartbeat_interval=heartbeat_s)

    async def modes_of(self, run: RunRecord) -> Sequence[StreamMode]:
        """Return the stream modes that the run was requested with."""
        found = await self._database.read(partial(run_rows.read_claimed_run, run_id=run.run_id))
        return deserialize_request(found.request).stream_modes

    async def state_before(self, run: RunRecord, after: int) -> DerivedState:
        """Return the state of the thread after event `after` of the run."""
        query = partial(read_earlier_changes, thread_id=run.thread_id, run_id=run.run_id, upto=after)
        state = DerivedState()
        for changes in await self._database.read(query):
            state.apply(changes)
        return state

    def begin(self, job: Job) -> None:
        """Start executing a run that is recorded as ours; after the shutdown the next start resumes it."""
        if self._is_closed:
            return
        self._bridge.open(job.run.run_id, job.past.last_seq if job.past else 1)
        with add_log_context(thread=job.run.thread_id, run=job.run.run_id):
            task = asyncio.create_task(self._execute(job), name=f"run {job.run.run_id}")
        self._active[job.run.run_id] = ActiveRun(job, task)

    def start_closing(self) -> None:
        """Begin the shutdown: disconnecting clients no longer cancel runs."""
        self._is_closing = True
        self._bridge.start_closing()

    async def aclose(self, drain_s: float = 0.0) -> None:
        """Wait `drain_s` for active runs; hand over the others to the next process."""
        self.start_closing()
        self._background.cancel()
        if drain_s and self._active:
            await asyncio.wait([each.task for each in self._active.values()], timeout=drain_s)
        self._is_closed = True
        for each in self._active.values():
            each.hand_over()
        tasks = [*(each.task for each in self._active.values()), *self._background.tasks]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_LIMIT_S)

    async def _execute(self, job: Job) -> None:
        run, last_seq = job.run, job.past.last_seq if job.past else 1
        log = self._journal.open(
            run, last_seq, partial(self.abandon, run.run_id), partial(self.request_stop, run.run_id)
        )
        try:
            status, finish = await self._worker.execute(job, log)
            if not finish.is_recorded:
                raise RunLost(f"run {run.run_id!r} is another process's now")
            logger.info("run %s of thread %s: %s", run.run_id, run.thread_id, status.value)
            self._count(run, status)
            self._background.begin(self._hooks.after_run(job, status), f"work after run {run.run_id}")
            await shield_until_done(self._begin_next(finish))
        except (asyncio.CancelledError, RunLost):
            logger.info("run %s of thread %s handed over", run.run_id, run.thread_id)
            if self._is_closing:
                with suppress(StorageUnavailable, RunLost):
                    await log.commit("custom", HANDED_OVER, do_nothing)
        except Exception as problem:
            logger.exception("end of run %s could not be recorded", run.run_id)
            await self._journal.discard(run.run_id)
            self._resume_later(run, problem)
        finally:
            self._bridge.publish_end(run.run_id)
            del self._active[run.run_id]

    def _count(self, run: RunRecord, status: RunStatus) -> None:
        self._metrics.runs_ended.labels(status.value).inc()
        self._metrics.run_seconds.observe((datetime.now(UTC) - run.created_at).total_seconds())

    async def _begin_next(self, finish: RunFinish) -> None:
        if finish.next is None:
            return
        try:
            settings = await self._hooks.resolve_settings(finish.next.record.actor)
            job = await restore_or_end(self._database, finish.next, settings)
        except StorageUnavailable as problem:
            self._resume_later(finish.next.record, problem)
            return
        if job is not None:
            self.begin(job)

    def _resume_later(self, run: RunRecord, problem: Exception) -> None:
        if not self._is_closing:  # otherwise the next start resumes it
            self._background.begin(self._resume(run, problem), f"another attempt at run {run.run_id}")

    async def _resume(self, run: RunRecord, problem: Exception) -> None:
        job = await resume_when_possible(self._database, run, problem, self._hooks.resolve_settings)
        self._bridge.publish_end(run.run_id)  # it may have been ended as damaged
        if job is not None:
            self.begin(job)
