"""Runs with which processes die again and again."""

import asyncio
from pathlib import Path

import orjson
from sqlalchemy import delete, update

from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.persistence.database import open_database
from deerflow.persistence.tables import run_events
from deerflow.runtime.runs.job import HANDED_OVER
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.support import OpenHarness

ASKED = RunRequest("t", [{"type": "human", "content": "one"}])


async def spoken(harness: Harness, run: RunRecord, word: str) -> None:
    """Wait until the run has said a word."""
    async for group in harness.runs.listen(run):
        if any(event.event == "messages" and word.encode() in event.data for event in group):
            return


async def said(harness: Harness) -> list[str]:
    state = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return [message["content"] for message in state["messages"]]


async def known(harness: Harness) -> list[str]:
    """What somebody knows who has read every event of the thread."""
    (last, *_) = await harness.runs.list_by_thread("t", LOCAL_USER)
    state = orjson.loads((await harness.runs.state_before(last, after=10**9)).to_json())
    return [message["content"] for message in state["messages"]]


async def let_die(place: Path | str, failure: bytes | None = None) -> None:
    """Have it look as if the last process had not been put away in good order, and perhaps had told of a failure."""
    change = delete(run_events) if failure is None else update(run_events).values(event="error", data=failure)
    farewell = change.where(run_events.c.data == HANDED_OVER)
    async with open_database(place) as database:
        assert await database.write(lambda connection: connection.execute(farewell).rowcount) == 1


async def test_after_three_deaths_a_run_is_given_up_and_says_so(
    database_place: Path | str, harness_saying: OpenHarness
) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half 0")))) as harness:
            run = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            await spoken(harness, run, "0")
        for number in (1, 2):
            await let_die(database_place)
            async with harness_saying(ScriptedModel.saying(Stall(Answer(f"Half {number}")))) as harness:
                await spoken(harness, run, str(number))
        await let_die(database_place)
        async with harness_saying(ScriptedModel.saying("Next.")) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert ended.status is RunStatus.ERROR and "died 3 times" in (ended.error or "")
            events = [event async for group in harness.runs.listen(run) for event in group]
            assert [event.event for event in events][-2:] == ["error", "end"]
            assert orjson.loads(events[-2].data)["name"] == "RunGivenUp"
            assert await said(harness) == await known(harness) == ["one"]
            after = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            assert (await harness.runs.join("t", after.run_id, LOCAL_USER)).status is RunStatus.SUCCESS


async def test_servers_that_are_put_away_in_good_order_do_not_count(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half 0")))) as harness:
            run = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            await spoken(harness, run, "0")
        for number in range(1, 5):
            async with harness_saying(ScriptedModel.saying(Stall(Answer(f"Half {number}")))) as harness:
                await spoken(harness, run, str(number))
        async with harness_saying(ScriptedModel.saying("At last.")) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert await said(harness) == await known(harness) == ["one", "At last."]


async def test_a_failure_that_was_told_is_the_end_also_when_the_process_dies_with_it(
    database_place: Path | str, harness_saying: OpenHarness
) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness:
            run = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            await spoken(harness, run, "Half")
        failure = orjson.dumps({"error": "RunTimeout", "name": "RunTimeout", "message": "too long"})
        await let_die(database_place, failure)
        async with harness_saying(ScriptedModel.saying()) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert (ended.status, ended.error) == (RunStatus.TIMEOUT, "too long")
            events = [event.event async for group in harness.runs.listen(run) for event in group]
            assert events.count("error") == 1 and events[-1] == "end"
