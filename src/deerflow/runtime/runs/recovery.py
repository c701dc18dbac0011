"""Recovery of runs whose process died."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import orjson
from langchain_core.messages import BaseMessage

from deerflow.domain.errors import EventRefused, StorageUnavailable
from deerflow.domain.runs import DAMAGED, RunEvent, RunRecord, RunStatus
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import Liveness
from deerflow.persistence.queries.events import read_earlier_changes, read_events
from deerflow.persistence.queries.runs import ClaimedRun, claim_next_run, list_unfinished_runs, reclaim_run
from deerflow.persistence.queries.transactions import finish_damaged_run, retry_run
from deerflow.runtime.journal.serialization import to_json
from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.runtime.runs.job import HANDED_OVER, EarlierAttempt, Job, ResolvedSettings, load_job
from deerflow.runtime.runs.records import PartialAnswer, RunRecords
from deerflow.runtime.transcript import to_messages

logger = logging.getLogger(__name__)

PAGE = 1000
RETRY_S, MAX_RETRY_S = 1.0, 30.0
MAX_ATTEMPTS = 4
"""Number of attempts after which a run that cannot be ended for an unknown reason is taken to be damaged."""
ResolveSettings = Callable[[str], Awaitable[ResolvedSettings]]
"""Owner of a run → the settings for it."""


async def claim_abandoned_runs(
    database: Database, process: str, liveness: Liveness, resolve_settings: ResolveSettings
) -> list[Job]:
    """Claim the runs of dead processes and return them as jobs; pending runs stay pending."""
    jobs = []
    unfinished = [run for run in await database.read(list_unfinished_runs) if run.process != process]
    dead = await liveness.find_dead({run.process for run in unfinished})
    for run in unfinished:
        if run.process not in dead:
            continue
        try:
            claimed = await claim_run(database, run, process)
        except StorageUnavailable:
            raise
        except Exception as problem:  # noqa: BLE001  # one damaged run must not stop the server
            claimed = await end_damaged(database, replace(run, process=process), problem)
        if claimed is None:
            continue
        if job := await restore_or_end(database, claimed, await resolve_settings(claimed.record.actor)):
            jobs.append(job)
            record = job.run
            logger.warning("run %s of thread %s goes on, attempt %d", record.run_id, record.thread_id, record.attempt)
    for each in dead:
        await liveness.remove_process(each)
    return jobs


async def claim_run(database: Database, run: RunRecord, process: str) -> ClaimedRun | None:
    """Claim a run, or the next pending one of its thread. Return None if another process was faster."""
    if run.status is RunStatus.RUNNING:
        return await database.write(partial(reclaim_run, run=run, process=process))
    return await database.write(partial(claim_next_run, thread_id=run.thread_id, process=process))


async def resume_when_possible(
    database: Database, run: RunRecord, problem: Exception, resolve_settings: ResolveSettings
) -> Job | None:
    """Return the next attempt at a run of this process whose end could not be recorded, once the database works.

    Return None if there is none: another process has taken the run over, or it is damaged.
    """
    is_exhausted = run.attempt >= MAX_ATTEMPTS and not isinstance(problem, StorageUnavailable)
    is_damaged = is_exhausted or isinstance(problem, EventRefused)
    note = HANDED_OVER if isinstance(problem, StorageUnavailable) else None  # the run did not cause it
    delay = RETRY_S
    while True:
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_RETRY_S)
        try:
            if is_damaged:
                claimed = await end_damaged(database, run, problem)
            else:
                claimed = await database.write(partial(retry_run, run=run, note=note))
            if claimed is None:
                return None
            run, note, is_damaged = claimed.record, HANDED_OVER, False
            return await restore_or_end(database, claimed, await resolve_settings(run.actor))
        except StorageUnavailable as still:
            logger.error("run %s of thread %s waits for the database: %s", run.run_id, run.thread_id, still)


async def restore_or_end(database: Database, claimed: ClaimedRun, settings: ResolvedSettings) -> Job | None:
    """Return the job of a claimed run. If it is damaged, end it and return the next one of its thread, if any."""
    following: ClaimedRun | None = claimed
    while following is not None:
        try:
            return await restore_job(database, following, settings)
        except StorageUnavailable:
            raise
        except Exception as problem:  # noqa: BLE001  # one damaged run must not stop the server
            following = await end_damaged(database, following.record, problem)
    return None


async def end_damaged(database: Database, run: RunRecord, problem: Exception) -> ClaimedRun | None:
    """End a run that cannot be restored; return the next one of its thread, which is claimed."""
    logger.error("run %s of thread %s cannot be restored and is ended", run.run_id, run.thread_id, exc_info=problem)
    error = f"its record is damaged and cannot be restored: {type(problem).__name__}: {problem}"
    data = to_json({"error": DAMAGED, "name": DAMAGED, "message": error})
    return (await database.write(partial(finish_damaged_run, run=run, error=error, data=data))).next


async def restore_job(database: Database, claimed: ClaimedRun, settings: ResolvedSettings) -> Job:
    """Return the job of a claimed run, restored from its event log."""
    if claimed.record.attempt == 1:  # a pending run: nothing of it or its thread has to be read
        return load_job(claimed, settings)
    events = await read_all_events(database, claimed.record)
    if not events:
        raise ValueError("it has no events")
    answer = PartialAnswer()
    for event in events:
        if event.event == "messages":
            add_logged_chunk(answer, event.data)
        elif event.event == "changes":
            changes = orjson.loads(event.data)
            answer.forget([*(message["id"] for message in changes["messages"]), *changes["removed"]])
    from deerflow.runtime.runs.tool_ledger import RecordedCalls

    known = DerivedState()
    run, last = claimed.record, events[-1].seq
    for changes in await database.read(
        partial(read_earlier_changes, thread_id=run.thread_id, run_id=run.run_id, upto=last)
    ):
        with suppress(orjson.JSONDecodeError):  # of an earlier run; the checkpoint corrects what readers know
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
    return load_job(claimed, settings, past, RunRecords.read(events))


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
