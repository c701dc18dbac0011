"""Recovery of runs whose process died."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import orjson
from langchain_core.messages import BaseMessage

from deerflow.domain.runs import RunEvent, RunRecord, RunStatus
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import Liveness
from deerflow.persistence.queries.events import read_earlier_changes, read_events
from deerflow.persistence.queries.runs import ClaimedRun, claim_next_run, list_unfinished_runs, reclaim_run
from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.runtime.runs.job import HANDED_OVER, EarlierAttempt, Job, ResolvedSettings, load_job
from deerflow.runtime.runs.records import PartialAnswer, RunRecords
from deerflow.runtime.runs.tool_ledger import RecordedCalls
from deerflow.runtime.transcript import to_messages

logger = logging.getLogger(__name__)

PAGE = 1000


async def claim_abandoned_runs(
    database: Database, process: str, liveness: Liveness, resolve_settings: Callable[[], ResolvedSettings]
) -> list[Job]:
    """Claim the runs of dead processes and return them as jobs; pending runs stay pending."""
    jobs = []
    unfinished = [run for run in await database.read(list_unfinished_runs) if run.process != process]
    dead = await liveness.find_dead({run.process for run in unfinished})
    for run in unfinished:
        if run.process in dead and (claimed := await claim_run(database, run, process)):
            jobs.append(await restore_job(database, claimed, resolve_settings()))
            logger.warning("run %s of thread %s goes on, attempt %d", run.run_id, run.thread_id, claimed.record.attempt)
    for each in dead:
        await liveness.remove_process(each)
    return jobs


async def claim_run(database: Database, run: RunRecord, process: str) -> ClaimedRun | None:
    """Claim a run, or the next pending one of its thread. Return None if another process was faster."""
    if run.status is RunStatus.RUNNING:
        return await database.write(partial(reclaim_run, run=run, process=process))
    return await database.write(partial(claim_next_run, thread_id=run.thread_id, process=process))


async def restore_job(database: Database, claimed: ClaimedRun, settings: ResolvedSettings) -> Job:
    """Return the job of a claimed run, restored from its event log."""
    events = await read_all_events(database, claimed.record)
    answer = PartialAnswer()
    for event in events:
        if event.event == "messages":
            add_logged_chunk(answer, event.data)
        elif event.event == "changes":
            changes = orjson.loads(event.data)
            answer.forget([*(message["id"] for message in changes["messages"]), *changes["removed"]])
    known = DerivedState()
    run, last = claimed.record, events[-1].seq
    for changes in await database.read(
        partial(read_earlier_changes, thread_id=run.thread_id, run_id=run.run_id, upto=last)
    ):
        known.apply(changes)
    past = EarlierAttempt(
        last,
        known,
        answer,
        RecordedCalls.read(events),
        unapplied_steering(events, known),
        deaths=run.attempt - 1 - sum(event.event == "custom" and event.data == HANDED_OVER for event in events),
        failure=next((orjson.loads(event.data) for event in events if event.event == "error"), None),
    )
    return load_job(claimed, settings, past if run.attempt > 1 else None, RunRecords.read(events))


def unapplied_steering(events: Sequence[RunEvent], known: DerivedState) -> list[BaseMessage]:
    """Return steering messages that were accepted but are not yet in the thread."""
    said = [message for event in events if event.event == "steered" for message in orjson.loads(event.data)["messages"]]
    return to_messages([each for each in said if each["id"] not in known.message_ids]) if said else []


async def read_all_events(database: Database, run: RunRecord) -> list[RunEvent]:
    """Return all events of a run."""
    found: list[RunEvent] = []
    while page := await database.read(
        partial(read_events, run_id=run.run_id, after=found[-1].seq if found else 0, limit=PAGE)
    ):
        found += page
    return found


def add_logged_chunk(answer: PartialAnswer, data: bytes) -> None:
    """Add a logged chunk to the partial answer."""
    piece, _metadata = orjson.loads(data)
    if piece["type"] != "AIMessageChunk":
        return
    content = piece["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "".join(block["text"] for block in blocks if block.get("type") == "text")
    answer.add(piece["id"], text, piece["additional_kwargs"].get("reasoning_content"))
