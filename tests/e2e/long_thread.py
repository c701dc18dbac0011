"""Writing a thread of any length directly into the journal."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import Connection

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import FINAL_EVENT, EventName, RunEvent, RunRequest
from deerflow.persistence.engine import open_database
from deerflow.persistence.queries.events import LoggedEvent, insert_events
from deerflow.persistence.queries.runs import StoredRequest, insert_run
from deerflow.persistence.queries.threads import create_thread
from deerflow.runtime.journal.serialization import to_json
from deerflow.runtime.journal.state_diff import Changes
from deerflow.runtime.threads.threads import manual_run

THREAD = "long"
ANSWER = """## Part {number}

The figures of part {number} **agree** with what was said before, and nothing is missing.

| month | value |
|---|---|
| May | {number} |

- one thing
- another `thing`
"""


async def write_long_thread(home: Path, messages: int) -> None:
    """Write the thread `long` with alternating questions and answers. No server may use `home`."""
    loaded = open_source(directory=home, environment={"DEER_FLOW_HOME": str(home)}).refresh()
    async with open_database(loaded.config.database.get_location(loaded.home)) as database:
        create = partial(create_thread, thread_id=THREAD, owner=LOCAL_USER.user_id, metadata={}, may_exist=False)
        await database.write(create)
        await database.write(partial(_insert_turns, turns=messages // 2))


def _insert_turns(connection: Connection, turns: int) -> None:
    request = StoredRequest(asdict(RunRequest(THREAD, goes_on=True)), "")
    for number in range(turns):
        run = manual_run(THREAD, LOCAL_USER, "update")
        insert_run(connection, run, request)
        events = enumerate(_turn_events(number), 1)
        created_at = run.created_at + timedelta(microseconds=number)
        insert_events(connection, [LoggedEvent(run.run_id, RunEvent(seq, *event), created_at) for seq, event in events])


def _turn_events(number: int) -> Iterator[tuple[EventName, bytes]]:
    question = HumanMessage(f"What about part {number}?", id=f"q{number}")
    answer = AIMessage(ANSWER.format(number=number), id=f"a{number}")
    title = {"title": "A very long thread"} if number == 0 else {}
    yield "metadata", to_json({"run_id": "-", "thread_id": THREAD})
    yield "changes", Changes([question], values=title).to_json()
    yield "changes", Changes([answer]).to_json()
    yield FINAL_EVENT, b"null"
