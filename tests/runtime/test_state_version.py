"""States that carry a version: what a newer program wrote is refused and left alone, older ones are read."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import psycopg
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from deerflow.domain.errors import NotFound, StateTooNew
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import CancelAction, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.persistence.checkpoints import COMPRESSED, STATE_VERSION, create_serializer
from deerflow.persistence.engine import open_database
from deerflow.persistence.queries.runs import request_stop
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.runtime.support import read_contents
from tests.support import OpenHarness, browse

REQUEST = RunRequest("t", [{"type": "human", "content": "one"}])
NEWER = rf"version {STATE_VERSION + 1}, this one reads up to {STATE_VERSION}\); upgrade DeerFlow"
BODY = {"input": {"messages": [{"type": "human", "content": "one"}]}}


def set_version(place: Path | str, version: int | None) -> None:
    """Set the version of all checkpoints, or remove it."""
    if isinstance(place, Path):
        value = "json_remove(CAST(metadata AS TEXT), '$.deerflow_schema')"
        if version is not None:
            value = f"json_set(CAST(metadata AS TEXT), '$.deerflow_schema', {version})"
        with closing(sqlite3.connect(place.with_name("checkpoints.db"))) as connection:
            connection.execute(f"UPDATE checkpoints SET metadata = {value}")
            connection.commit()
    else:
        said = {} if version is None else {"deerflow_schema": version}
        with psycopg.connect(place) as connection:
            change = "UPDATE checkpoints SET metadata = (metadata - 'deerflow_schema') || %s::jsonb"
            connection.execute(change, [orjson.dumps(said).decode()])


async def finish(harness: Harness) -> RunStatus:
    run = await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
    return (await harness.runs.join("t", run.run_id, LOCAL_USER)).status


async def test_every_checkpoint_has_a_version(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("First.")) as harness, asyncio.timeout(20):
        await finish(harness)
        await harness.threads.update_state("t", LOCAL_USER, {"title": "Named"})
        history = await harness.threads.history("t", LOCAL_USER, limit=100)
        assert len(history) > 2
        assert {orjson.loads(state.metadata)["deerflow_schema"] for state in history} == {STATE_VERSION}


async def test_a_thread_of_a_newer_version_is_rejected_without_loss(
    database_location: Path | str, harness_saying: OpenHarness
) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying("First.")) as harness:
            await finish(harness)
        set_version(database_location, STATE_VERSION + 1)
        async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
            with pytest.raises(StateTooNew, match=NEWER):
                await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
            with pytest.raises(NotFound):
                await harness.runs.create_or_reject(REQUEST, Principal("somebody-else"))
            for refused in (
                await http.post("/api/threads/t/runs", json=BODY),
                await http.get("/api/threads/t/state"),
                await http.post("/api/threads/t/history", json={}),
                await http.post("/api/threads/t/copy"),
            ):
                assert (refused.status_code, refused.json()["error"]) == (409, "StateTooNew"), refused.text
            assert len(await harness.runs.list_by_thread("t", LOCAL_USER)) == 1
            thread = orjson.loads(await harness.threads.messages("t", LOCAL_USER))
            assert [message["content"] for message in thread["messages"]] == ["one", "First."]
            assert (await http.get("/api/threads/t")).status_code == 200
        set_version(database_location, STATE_VERSION)
        async with harness_saying(ScriptedModel.saying("Second.")) as harness:
            assert await finish(harness) is RunStatus.SUCCESS
            assert await read_contents(harness) == ["one", "First.", "one", "Second."]


@pytest.mark.parametrize("action", [None, *CancelAction])
async def test_a_run_continued_by_a_newer_version_ends_with_a_named_error(
    database_location: Path | str, harness_saying: OpenHarness, action: CancelAction | None
) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness:
            run = await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
            async for group in harness.runs.listen(run):
                if any(event.event == "messages" for event in group):
                    break
        set_version(database_location, STATE_VERSION + 1)
        if action is not None:
            async with open_database(database_location) as database:
                await database.write(lambda connection: request_stop(connection, run.run_id, action))
        async with harness_saying(ScriptedModel.saying()) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            events = [event async for group in harness.runs.listen(run) for event in group]
            assert events[-1].event == "end"
            if action is CancelAction.INTERRUPT:
                assert ended.status is RunStatus.INTERRUPTED
            else:
                name = "StateTooNew" if action is None else "RolledBack"
                failures = [orjson.loads(event.data)["name"] for event in events if event.event == "error"]
                assert (ended.status, failures) == (RunStatus.ERROR, [name])


async def test_a_thread_without_state_version_continues(
    database_location: Path | str, harness_saying: OpenHarness
) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying("First.")) as harness:
            await finish(harness)
        set_version(database_location, None)
        async with harness_saying(ScriptedModel.saying("Second.")) as harness:
            assert await finish(harness) is RunStatus.SUCCESS
            assert await read_contents(harness) == ["one", "First.", "one", "Second."]


async def test_a_thread_of_version_1_continues(database_location: Path | str, harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying("First.")) as harness:
            await finish(harness)
        set_version(database_location, 1)
        async with harness_saying(ScriptedModel.saying("Second.")) as harness:
            assert await finish(harness) is RunStatus.SUCCESS
            assert await read_contents(harness) == ["one", "First.", "one", "Second."]


@pytest.mark.parametrize(
    ("size", "kind"), [(1_000, "msgpack"), (100_000, COMPRESSED), (1_000_000, COMPRESSED), (2_000_000, "msgpack")]
)
def test_large_states_are_stored_compressed(size: int, kind: str) -> None:
    value = {"messages": [AIMessage("word " * (size // 5), id="m")]}
    stored = create_serializer().dumps_typed(value)
    assert stored[0] == kind
    assert (len(stored[1]) < size / 3) is (kind == COMPRESSED)
    assert create_serializer().loads_typed(stored) == value
    assert create_serializer().loads_typed(JsonPlusSerializer().dumps_typed(value)) == value
