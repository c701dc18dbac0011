"""Requests, tools, waits and simulated crashes for tests of runs."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import delete, update

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import MultitaskStrategy, RunRecord, RunRequest
from deerflow.domain.tools import read_only
from deerflow.harness import Harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.tables import run_events
from deerflow.runtime.runs.job import HANDED_OVER
from tests.sandbox.support import work

COUNT_TOOL: Mapping[str, Any] = {"name": "count", "group": "test", "use": "tests.runtime.support:count"}
PAUSE_TOOL: Mapping[str, Any] = {"name": "pause", "group": "test", "use": "tests.runtime.support:pause"}
LOOK_TOOL: Mapping[str, Any] = {"name": "look", "group": "test", "use": "tests.runtime.support:look"}
NO_TOOLBOX = {"sandbox": {"toolbox": {"enabled": False}}}
LIMIT_S = 60.0


def count(file: str) -> str:
    """Add a line to a file.

    Args:
        file: Which one.
    """
    with Path(file).open("a") as lines:
        lines.write("counted\n")
    return "counted"


async def pause(file: str, bell: str) -> str:
    """Add a line to a file, ring and never return.

    Args:
        file: Which one.
        bell: A pipe whose other end hears it.
    """
    await asyncio.to_thread(count, file)
    await asyncio.to_thread(Path(bell).write_text, "done")
    await asyncio.Event().wait()
    return "never"


@read_only
async def look() -> str:
    """Look around."""
    return "nothing here"


def build_request(
    text: str,
    thread_id: str = "t",
    *,
    strategy: MultitaskStrategy = MultitaskStrategy.REJECT,
    key: str | None = None,
) -> RunRequest:
    """Return a request with one message of the user."""
    messages = [{"type": "human", "content": text}]
    return RunRequest(thread_id, messages, multitask_strategy=strategy, idempotency_key=key)


async def finish_run(harness: Harness, request: RunRequest) -> tuple[RunRecord, list[tuple[str, object]]]:
    """Start a run, wait for its end, and return it with its events."""
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    events = await list_events(harness, run)
    return await harness.runs.join(run.thread_id, run.run_id, LOCAL_USER), events


async def list_events(harness: Harness, run: RunRecord, after: int = 0) -> list[tuple[str, object]]:
    """Return names and data of the events after event `after`, to the end of the run."""
    async with asyncio.timeout(10):
        groups = [group async for group in harness.runs.listen(run, after=after)]
    return [(event.event, orjson.loads(event.data)) for group in groups for event in group]


async def wait_for_event(harness: Harness, run: RunRecord, name: str) -> None:
    """Wait until the run has an event of that name."""
    async with asyncio.timeout(LIMIT_S):
        async for group in harness.runs.listen(run):
            if any(event.event == name for event in group):
                return


async def wait_for_text(harness: Harness, run: RunRecord, text: str, heartbeat_s: float = 15) -> None:
    """Wait until the run has streamed a text."""
    async with asyncio.timeout(LIMIT_S):
        async for group in harness.runs.listen(run, heartbeat_s=heartbeat_s):
            if any(event.event == "messages" and text.encode() in event.data for event in group):
                return


async def read_state(harness: Harness, thread_id: str = "t") -> dict[str, Any]:
    """Return the values of the latest checkpoint."""
    values: dict[str, Any] = orjson.loads((await harness.threads.state(thread_id, LOCAL_USER)).values)
    return values


async def read_messages(harness: Harness, thread_id: str = "t") -> list[tuple[str, str]]:
    """Return type and content of the messages of the latest checkpoint."""
    return [(message["type"], message["content"]) for message in (await read_state(harness, thread_id))["messages"]]


async def read_contents(harness: Harness) -> list[str]:
    """Return the contents of the messages of the latest checkpoint."""
    return [content for _, content in await read_messages(harness)]


async def replay_messages(harness: Harness) -> list[tuple[str, str]]:
    """Return type and content of the messages that the events of the thread add up to."""
    (last, *_) = await harness.runs.list_by_thread("t", LOCAL_USER)
    state = orjson.loads((await harness.runs.state_before(last, after=10**9)).to_json())
    return [(message["type"], message["content"]) for message in state["messages"]]


async def replay_contents(harness: Harness) -> list[str]:
    """Return the contents of the messages that the events of the thread add up to."""
    return [content for _, content in await replay_messages(harness)]


async def simulate_crash(place: Path | str, failure: bytes | None = None) -> None:
    """Remove the event by which the last process handed its run over, or replace it by a failure."""
    change = delete(run_events) if failure is None else update(run_events).values(event="error", data=failure)
    handover = change.where(run_events.c.data == HANDED_OVER)
    async with open_database(place) as database:
        assert await database.write(lambda connection: connection.execute(handover).rowcount) == 1


def create_workspace_files(home: Path) -> None:
    """Create files in the workspace of the thread, writable for everyone."""
    folder = work(home) / "folder"
    folder.mkdir()
    for file, text in ((folder / "inner", "inner"), (work(home) / "kept", "kept\n"), (work(home) / "gone", "gone")):
        file.write_text(text)
        file.chmod(0o666)
    (work(home) / "link").symlink_to("kept")
