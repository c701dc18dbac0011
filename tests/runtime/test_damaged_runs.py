"""Runs with a damaged record: each is ended with an error, and the server and its other runs start."""

import asyncio
from pathlib import Path

import orjson
import pytest
from sqlalchemy import Connection, delete, text, update

from deerflow.config.source import ConfigSource
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import MultitaskStrategy, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.tables import run_events, runs
from deerflow.testing import Answer, ScriptedModel, Stall

HI = [{"type": "human", "content": "Hi"}]


def remove_events(connection: Connection, run_id: str) -> None:
    connection.execute(delete(run_events).where(run_events.c.run_id == run_id))


def empty_request(connection: Connection, run_id: str) -> None:
    connection.execute(update(runs).where(runs.c.run_id == run_id).values(request={}))


def null_request(connection: Connection, run_id: str) -> None:
    connection.execute(text("UPDATE runs SET request = 'null' WHERE run_id = :run"), {"run": run_id})


def scramble_event(connection: Connection, run_id: str) -> None:
    of_run = run_events.c.run_id == run_id
    connection.execute(update(run_events).where(of_run).values(event="changes", data=b"{not json"))


def unknown_agent_option(connection: Connection, run_id: str) -> None:
    request = '{"thread_id": "x", "resume": null, "agent": {"colour": 3}, "on_disconnect": "sometimes"}'
    connection.execute(
        text("UPDATE runs SET request = :request WHERE run_id = :run"), {"run": run_id, "request": request}
    )


DAMAGES = [remove_events, empty_request, null_request, scramble_event, unknown_agent_option]


async def start(harness: Harness, thread_id: str) -> str:
    request = RunRequest(thread_id, HI, multitask_strategy=MultitaskStrategy.ENQUEUE)
    return (await harness.runs.create_or_reject(request, LOCAL_USER)).run_id


async def join(harness: Harness, thread_id: str, run_id: str) -> RunStatus:
    async with asyncio.timeout(30):
        return (await harness.runs.join(thread_id, run_id, LOCAL_USER)).status


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_run_is_ended_and_all_others_go_on(
    source: ConfigSource, database_location: Path | str, damage: object
) -> None:
    async with open_harness(source, ScriptedModel.saying(Stall(Answer("Half")), Stall(Answer("Half")))) as harness:
        damaged, queued, other = [await start(harness, thread) for thread in ("damaged", "damaged", "other")]

    async with open_database(database_location) as database:
        await database.write(lambda connection: damage(connection, damaged))  # type: ignore[operator]

    async with open_harness(source, ScriptedModel.saying("One.", "Two.", "Three.")) as harness:
        assert await join(harness, "damaged", damaged) is RunStatus.ERROR
        assert "damaged" in ((await harness.runs.get("damaged", damaged, LOCAL_USER)).error or "")
        assert await join(harness, "damaged", queued) is RunStatus.SUCCESS
        assert await join(harness, "other", other) is RunStatus.SUCCESS
        events = [
            event
            async for group in harness.runs.listen(await harness.runs.get("damaged", damaged, LOCAL_USER))
            for event in group
        ]
        assert [event.event for event in events][-2:] == ["error", "end"]
        assert orjson.loads(events[-2].data)["error"] == "RunDamaged"
        assert await join(harness, "damaged", await start(harness, "damaged")) is RunStatus.SUCCESS
