"""Goes on with the runs a dead process left behind."""

import logging
from collections.abc import Sequence
from functools import partial

import orjson
from langchain_core.messages import BaseMessage

from deerflow.domain.events import StreamEvent
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.persistence.database import Database
from deerflow.persistence.events import earlier_changes, read_events
from deerflow.persistence.liveness import Liveness
from deerflow.persistence.runs import ClaimedRun, claim_next, reclaim_run, unfinished_runs
from deerflow.runtime.changes import DerivedState
from deerflow.runtime.incoming import to_messages
from deerflow.runtime.runs.job import HANDED_OVER, Job, Past, stored_job
from deerflow.runtime.runs.ledger import Earlier
from deerflow.runtime.runs.partial import PartialAnswer
from deerflow.runtime.runs.records import Records

logger = logging.getLogger(__name__)

PAGE = 1000


async def take_over(database: Database, process: str, liveness: Liveness) -> list[Job]:
    """The runs whose processes are gone, as jobs of this one; those that still wait for their turn go on waiting."""
    jobs = []
    unfinished = [run for run in await database.read(unfinished_runs) if run.process != process]
    dead = await liveness.dead_among({run.process for run in unfinished})
    for run in unfinished:
        if run.process in dead and (claimed := await claim(database, run, process)):
            jobs.append(await read_back(database, claimed))
            logger.warning("run %s of thread %s goes on, attempt %d", run.run_id, run.thread_id, claimed.record.attempt)
    for each in dead:
        await liveness.bury(each)
    return jobs


async def claim(database: Database, run: RunRecord, process: str) -> ClaimedRun | None:
    """Take over a run, or the one of its thread whose turn it is; None when somebody else was faster."""
    if run.status is RunStatus.RUNNING:
        return await database.write(partial(reclaim_run, run=run, process=process))
    return await database.write(partial(claim_next, thread_id=run.thread_id, process=process))


async def read_back(database: Database, claimed: ClaimedRun) -> Job:
    """A run with what its log tells."""
    events = await all_events(database, claimed.record)
    answer = PartialAnswer()
    for event in events:
        if event.event == "messages":
            take_in(answer, event.data)
        elif event.event == "changes":
            changes = orjson.loads(event.data)
            answer.forget([*(message["id"] for message in changes["messages"]), *changes["removed"]])
    known = DerivedState()
    run, last = claimed.record, events[-1].seq
    for told in await database.read(partial(earlier_changes, thread_id=run.thread_id, run_id=run.run_id, upto=last)):
        known.apply(told)
    past = Past(
        last,
        known,
        answer,
        Earlier.read(events),
        lost_mail(events, known),
        deaths=run.attempt - 1 - sum(event.event == "custom" and event.data == HANDED_OVER for event in events),
        failure=next((orjson.loads(event.data) for event in events if event.event == "error"), None),
    )
    return stored_job(claimed, past if run.attempt > 1 else None, Records.read(events))


def lost_mail(events: Sequence[StreamEvent], known: DerivedState) -> list[BaseMessage]:
    """What people had said to the run and was not yet in the thread."""
    said = [message for event in events if event.event == "steered" for message in orjson.loads(event.data)["messages"]]
    return to_messages([each for each in said if each["id"] not in known.message_ids]) if said else []


async def all_events(database: Database, run: RunRecord) -> list[StreamEvent]:
    """The whole log of a run."""
    found: list[StreamEvent] = []
    while page := await database.read(
        partial(read_events, run_id=run.run_id, after=found[-1].seq if found else 0, limit=PAGE)
    ):
        found += page
    return found


def take_in(answer: PartialAnswer, data: bytes) -> None:
    """Add a logged piece to the answer."""
    piece, _metadata = orjson.loads(data)
    if piece["type"] != "AIMessageChunk":
        return
    content = piece["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "".join(block["text"] for block in blocks if block.get("type") == "text")
    answer.add(piece["id"], text, piece["additional_kwargs"].get("reasoning_content"))
