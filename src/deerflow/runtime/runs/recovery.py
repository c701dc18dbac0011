"""Ends the runs a dead process left behind, keeping what they had said."""

import logging
from collections.abc import Callable
from functools import partial

import orjson

from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.persistence.database import Database
from deerflow.persistence.events import read_events
from deerflow.persistence.runs import unfinished_runs
from deerflow.runtime.journal import Journal
from deerflow.runtime.runs.partial import PartialAnswer
from deerflow.runtime.runs.worker import RunWorker
from deerflow.runtime.serialization import to_json

logger = logging.getLogger(__name__)

REASON = "the server stopped while this run was under way; what it had said was kept"
PAGE = 1000


async def end_unfinished_runs(
    database: Database, journal: Journal, worker: RunWorker, is_alive: Callable[[str], bool]
) -> None:
    """Give every unfinished run its final event and status, unless the process that has it is alive."""
    abandoned = [run for run in await database.read(unfinished_runs) if not is_alive(run.process)]
    for run in abandoned:
        seq, answer = await read_back(database, run)
        log = journal.open(run.run_id, last_seq=seq)
        await worker.keep(run.thread_id, answer, log)
        log.append("error", to_json({"error": "ServerStopped", "name": "ServerStopped", "message": REASON}))
        await log.finish(RunStatus.ERROR, REASON)
        logger.warning("run %s of thread %s: %s", run.run_id, run.thread_id, REASON)


async def read_back(database: Database, run: RunRecord) -> tuple[int, PartialAnswer]:
    """The last `seq` of a run's log, and the answer it was in the middle of."""
    seq, answer = 0, PartialAnswer()
    while events := await database.read(partial(read_events, run_id=run.run_id, after=seq, limit=PAGE)):
        for event in events:
            if event.event == "messages":
                take_in(answer, event.data)
            elif event.event == "changes":
                answer.forget([message["id"] for message in orjson.loads(event.data)["messages"]])
        seq = events[-1].seq
    return seq, answer


def take_in(answer: PartialAnswer, data: bytes) -> None:
    """Add a logged piece to the answer."""
    piece, _metadata = orjson.loads(data)
    if piece["type"] != "AIMessageChunk":
        return
    content = piece["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "".join(block["text"] for block in blocks if block.get("type") == "text")
    answer.add(piece["id"], text, piece["additional_kwargs"].get("reasoning_content"))
