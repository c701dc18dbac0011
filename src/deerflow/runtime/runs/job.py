"""Job: a run to execute, with its request, settings and steering messages; timeline: what was recorded of runs."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage

from deerflow.agents.spec import AgentSettings
from deerflow.config.sections.runs import TitleConfig
from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.identity import Principal
from deerflow.domain.runs import (
    AgentSpec,
    CancelAction,
    DisconnectMode,
    EventName,
    MultitaskStrategy,
    Resume,
    RunRecord,
    RunRequest,
    StateCommand,
)
from deerflow.domain.usage import PrefixCacheUsage, SpendingLimit
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.events import LoggedEvent
from deerflow.persistence.queries.runs import (
    ClaimedRun,
    find_runs_by_prefix,
    finish_joined,
    list_latest_runs,
    list_steering_requests,
    read_requests,
    read_timed_events,
)
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.journal.serialization import message_fields, to_json
from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.runtime.runs.records import PartialAnswer, RunRecords, add_prefix
from deerflow.runtime.runs.request import request_messages
from deerflow.runtime.stream_bridge.local import StreamBridge

if TYPE_CHECKING:
    from deerflow.runtime.runs.tool_ledger import RecordedCalls

HANDED_OVER = b'{"type":"handed_over"}'
"""Custom event: the server shuts down and another process resumes the run."""


@dataclass(frozen=True, slots=True)
class EarlierAttempt:
    """State of a run at the death of its previous process, read from the event log."""

    last_seq: int
    known: DerivedState
    """State that readers know."""
    answer: PartialAnswer
    """Message that was being streamed."""
    calls: "RecordedCalls"
    steered: Sequence[BaseMessage] = ()
    """Steering messages that it had accepted."""
    deaths: int = 0
    """Number of processes that died while executing it."""
    failure: Mapping[str, str] | None = None
    """Failure that was already published; the run only has to be ended."""


@dataclass(slots=True)
class RunSignals:
    """Signals to an active run: pending steering messages and the kind of cancellation."""

    action: CancelAction = CancelAction.INTERRUPT
    hands_over: bool = False
    """Whether another process resumes it."""
    has_pending_input: bool = False
    """Whether steering messages may be pending."""
    has_stopped: bool = False
    """Whether the graph has stopped, so that only the end of the run is left to do."""
    heard: list[BaseMessage] = field(default_factory=list)
    """Steering messages taken so far."""


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """Settings of one run. They are resolved once, when the run is accepted or taken over, and do not change."""

    timeout_s: float | None
    """None for no limit."""
    recursion_limit: int
    title: TitleConfig
    budget: SpendingLimit
    """Limit of the operator; a request may lower it."""
    uses_memory: bool
    requires_skill_contract: bool
    agents: AgentSettings
    callbacks: Sequence[BaseCallbackHandler] = ()
    """Callback handlers of the run, such as a tracer."""


@dataclass(frozen=True, slots=True)
class Job:
    """Run with its request and settings; `past` is set if an earlier attempt began it."""

    run: RunRecord
    request: RunRequest
    settings: ResolvedSettings
    messages: Sequence[BaseMessage] = ()
    past: EarlierAttempt | None = None
    stop: CancelAction | None = None
    """Cancellation that was requested before its process died; the run is not resumed."""
    signals: RunSignals = field(default_factory=RunSignals)
    records: RunRecords = field(default_factory=RunRecords)


STOP_RETRY_S, STOP_ATTEMPTS = 4.0, 3
"""Pause before a cancellation that was ignored is repeated, and number of cancellations."""


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """Run that this process executes."""

    job: Job
    task: asyncio.Task[None]

    def stop(self, action: CancelAction) -> None:
        """Cancel the run, unless that has been done."""
        if not self.task.cancelling():
            self.job.signals.action = action
            self._cancel(STOP_ATTEMPTS)

    def hand_over(self) -> None:
        """Stop executing the run: another process resumes it."""
        self.job.signals.hands_over = True
        self._cancel(STOP_ATTEMPTS)

    def _cancel(self, attempts: int) -> None:
        """Cancel the task; again later if the graph goes on. What is left to do at the end is not interrupted."""
        if self.task.done() or self.job.signals.has_stopped:
            return
        self.task.cancel()
        if attempts > 1:
            asyncio.get_running_loop().call_later(STOP_RETRY_S, self._cancel, attempts - 1)


def load_job(
    claimed: ClaimedRun,
    settings: ResolvedSettings,
    past: EarlierAttempt | None = None,
    records: RunRecords | None = None,
) -> Job:
    """Return the job of a claimed run."""
    request = deserialize_request(claimed.request)
    messages = request_messages(request)
    return Job(claimed.record, request, settings, messages, past, claimed.stop, records=records or RunRecords())


def deserialize_request(stored: Mapping[str, Any]) -> RunRequest:
    """Return the request from its stored form."""
    resume, command = stored["resume"], stored.get("command")
    words = {
        "agent": AgentSpec.from_json(stored["agent"]),
        "on_disconnect": DisconnectMode(stored["on_disconnect"]),
        "multitask_strategy": MultitaskStrategy(stored.get("multitask_strategy", MultitaskStrategy.REJECT)),
        "resume": Resume(resume["answer"]) if resume else None,
        "command": StateCommand(**command) if command else None,
        "budget": SpendingLimit.from_stored(stored["budget"]) if stored.get("budget") else None,
    }
    return RunRequest(**{**stored, **words})


class SteeringInbox:
    """Takes the steering requests of one run. They are committed to the event log before the model sees them."""

    def __init__(self, database: Database, bridge: StreamBridge, job: Job, log: RunLog) -> None:
        self._database = database
        self._bridge = bridge
        self._job = job
        self._log = log
        # Accepted by an earlier attempt that died before they were in the thread.
        self._again = list(job.past.steered) if job.past else []

    async def take(self) -> Sequence[BaseMessage]:
        """Return the messages that arrived since the last call."""
        again, self._again = self._again, []
        self._job.signals.heard += again
        if not self._job.signals.has_pending_input:
            return again
        self._job.signals.has_pending_input = False
        joined = await self._database.read(partial(list_steering_requests, run=self._job.run))
        messages = [message for each in joined for message in request_messages(deserialize_request(each.request))]
        if not messages:
            return again
        data = to_json({"messages": [message_fields(message) for message in messages]})
        ended = await self._log.commit("steered", data, partial(finish_joined, joined=joined))
        for logged in ended:
            self._bridge.publish(logged.run_id, [logged.event])
            self._bridge.publish_end(logged.run_id)
        self._job.signals.heard += messages
        return [*again, *messages]


PAGE = 1000
SHOWN = 5
USAGE_EVENTS: Sequence[EventName] = ("usage",)


class Timeline:
    """Reader of event logs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(self, who: Principal, limit: int) -> Sequence[RunRecord]:
        """Return the runs of all threads, newest first."""
        return await self._database.read(partial(list_latest_runs, owner=who.user_id, limit=limit))

    async def find(self, who: Principal, beginning: str) -> RunRecord:
        """Return the run whose id starts with a prefix.

        Raises:
            NotFound: No run matches.
            InvalidRequest: Several runs match.
        """
        query = partial(find_runs_by_prefix, owner=who.user_id, beginning=beginning, limit=SHOWN)
        found = await self._database.read(query)
        if not found:
            raise NotFound(f"no run {beginning!r}")
        if len(found) > 1:
            several = ", ".join(run.run_id for run in found)
            raise InvalidRequest(f"several runs begin with {beginning!r}: {several}; write more of the one you mean")
        return found[0]

    async def requests(self, who: Principal, runs: Sequence[RunRecord]) -> Mapping[str, RunRequest]:
        """Return the requests of runs by run id."""
        query = partial(read_requests, run_ids=[run.run_id for run in runs], owner=who.user_id)
        return {run_id: deserialize_request(stored) for run_id, stored in (await self._database.read(query)).items()}

    async def page(
        self, run: RunRecord, after: int, limit: int, names: Collection[EventName] = ()
    ) -> Sequence[LoggedEvent]:
        """Return at most `limit` events of a run after `after`; only those with one of `names`, if given."""
        query = partial(read_timed_events, run_id=run.run_id, after=after, limit=limit, names=names)
        return await self._database.read(query)

    async def events(self, run: RunRecord, names: Collection[EventName] = ()) -> AsyncIterator[LoggedEvent]:
        """Yield the events of a run; only those with one of `names`, if given."""
        after = 0
        while page := await self.page(run, after, PAGE, names):
            for logged in page:
                yield logged
            after = page[-1].event.seq

    async def prefix_cache(self, run: RunRecord) -> PrefixCacheUsage:
        """Return the prefixes of the requests of a run."""
        sums = PrefixCacheUsage()
        async for logged in self.events(run, USAGE_EVENTS):
            sums = add_prefix(sums, logged.event)
        return sums
