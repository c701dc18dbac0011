"""The clock jumps before, during and after runs, with and without restarts: order and contents stay right."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import time_machine
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import id as checkpoint_ids

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import MultitaskStrategy, RunRequest, RunStatus
from deerflow.domain.usage import TokenCounts, UsageEntry, UsageOrigin
from deerflow.domain.web_pages import FetchedPage
from deerflow.harness import Harness, open_harness
from deerflow.memory.queries.pending import find_next_due
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import DatabaseLocation
from deerflow.persistence.queries.messages import read_page
from deerflow.persistence.queries.threads import insert_thread
from deerflow.persistence.queries.usage import find_latest_context, record_usage
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.memory.support import TABS_FACT, build_extraction_output
from tests.runtime.support import simulate_crash, wait_for_text

HOUR, YEAR = timedelta(hours=1), timedelta(days=365)
JUMPS = [-HOUR, HOUR, -YEAR, YEAR]
QUIET = {"memory": {"enabled": False}, "title": {"enabled": False}, "sharing": {"enabled": True}}
NAMES = ["an hour back", "an hour ahead", "a year back", "a year ahead"]


def restart() -> None:
    """Forget what a new process does not know."""
    checkpoint_ids._last_v6_timestamp = None


async def say(harness: Harness, text: str, strategy: MultitaskStrategy = MultitaskStrategy.REJECT) -> str:
    request = RunRequest("t", [{"type": "human", "content": text}], multitask_strategy=strategy)
    return (await harness.runs.create_or_reject(request, LOCAL_USER)).run_id


async def join(harness: Harness, run_id: str) -> None:
    async with asyncio.timeout(30):
        assert (await harness.runs.join("t", run_id, LOCAL_USER)).status is RunStatus.SUCCESS


async def turn(harness: Harness, text: str) -> str:
    run_id = await say(harness, text)
    await join(harness, run_id)
    return run_id


async def assert_order(harness: Harness, texts: Sequence[str], run_ids: Sequence[str]) -> None:
    """Assert the order of messages in the state, in the messages that readers page through, and of the runs."""
    state: dict[str, Any] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    assert [message["content"] for message in state["messages"]] == texts
    page = await harness.core.database.read(lambda connection: read_page(connection, "t", None, 100))
    assert [message.fields["content"] for message in page.messages] == texts
    listed = await harness.runs.list_by_thread("t", LOCAL_USER)
    assert [run.run_id for run in listed] == list(reversed(run_ids))
    assert (await harness.threads.get("t", LOCAL_USER)).status == "idle"


def script(seen: list[list[str]], *replies: str | Stall) -> ScriptedModel:
    """Return a model that records the conversation of each call."""

    def line(reply: str | Stall) -> Any:
        def answer(messages: Sequence[BaseMessage]) -> str | Stall:
            spoken = [message.text for message in messages if message.type in ("human", "ai")]
            seen.append([text for text in spoken if len(text) == 2])
            return reply

        return answer

    return ScriptedModel.saying(*map(line, replies))


def open_at(home: Path, model: ScriptedModel) -> AbstractAsyncContextManager[Harness]:
    settings = {"memory": {"enabled": False}, "title": {"enabled": False}}
    return open_harness(open_source(directory=home, environment={}, overrides=settings), model)


def phases(jump: timedelta) -> list[tuple[datetime, list[str]]]:
    """Return questions and when they are asked: the clock is right, has jumped, and is right again."""
    now = datetime.now(UTC)
    return [(now, ["Q1", "Q2"]), (now + jump, ["Q3", "Q4"]), (now + HOUR / 60, ["Q5"])]


TEXTS = ["Q1", "A1", "Q2", "A2", "Q3", "A3", "Q4", "A4", "Q5", "A5"]


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_turns_around_a_jump_are_kept_in_order(tmp_path: Path, jump: timedelta) -> None:
    seen: list[list[str]] = []
    runs: list[str] = []
    async with open_at(tmp_path, script(seen, "A1", "A2", "A3", "A4", "A5")) as harness:
        for moment, questions in phases(jump):
            with time_machine.travel(moment, tick=True):
                runs += [await turn(harness, question) for question in questions]
                await assert_order(harness, TEXTS[: 2 * len(runs)], runs)
    assert seen == [TEXTS[: 2 * number + 1] for number in range(5)]


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_turns_around_a_jump_and_a_restart_are_kept_in_order(tmp_path: Path, jump: timedelta) -> None:
    seen: list[list[str]] = []
    runs: list[str] = []
    model = script(seen, "A1", "A2", "A3", "A4", "A5")
    for moment, questions in phases(jump):
        restart()
        with time_machine.travel(moment, tick=True):
            async with open_at(tmp_path, model) as harness:
                if runs:
                    await assert_order(harness, TEXTS[: 2 * len(runs)], runs)
                runs += [await turn(harness, question) for question in questions]
                await assert_order(harness, TEXTS[: 2 * len(runs)], runs)
    assert seen == [TEXTS[: 2 * number + 1] for number in range(5)]


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_queued_messages_are_taken_in_order(tmp_path: Path, jump: timedelta) -> None:
    seen: list[list[str]] = []
    model = script(seen, Stall(Answer("A1")), "A2", "A3", "A4")
    now = datetime.now(UTC)
    async with open_at(tmp_path, model) as harness, asyncio.timeout(60):
        with time_machine.travel(now, tick=True):
            runs = [await say(harness, "Q1"), await say(harness, "Q2", MultitaskStrategy.ENQUEUE)]
        await model.waiting.wait()
        with time_machine.travel(now + jump, tick=True):
            runs.append(await say(harness, "Q3", MultitaskStrategy.ENQUEUE))
            model.release()
            for run_id in runs:
                await join(harness, run_id)
            runs.append(await turn(harness, "Q4"))
            texts = ["Q1", "A1", "Q2", "A2", "Q3", "A3", "Q4", "A4"]
            await assert_order(harness, texts, runs)


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_a_share_link_shows_what_was_there_before_it_wherever_the_clock_stands(
    tmp_path: Path, jump: timedelta
) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides=QUIET)
    async with open_harness(source, ScriptedModel.saying("One.", "Two.")) as harness:
        await turn(harness, "First")
        sharing = harness.resources.sharing
        created = await sharing.create("t", LOCAL_USER)
        with time_machine.travel(datetime.now(UTC) + jump):
            await turn(harness, "Second")
        shown = (await sharing.read_page(created.token, None, 100)).messages
    assert [message["content"] for message, _ in shown] == ["First", "One."]


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_a_branch_drops_exactly_the_later_messages_from_the_search_index(tmp_path: Path, jump: timedelta) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides=QUIET)
    async with open_harness(source, ScriptedModel.saying("Apples.", "Pears.", "Plums.")) as harness:
        await turn(harness, "First fruit")
        origin = (await harness.threads.history("t", LOCAL_USER, 1))[0].checkpoint_id
        with time_machine.travel(datetime.now(UTC) + jump):
            await turn(harness, "Second fruit")
            request = RunRequest("t", [{"type": "human", "content": "Third fruit"}], checkpoint_id=origin)
            await join(harness, (await harness.runs.create_or_reject(request, LOCAL_USER)).run_id)
        found = {}
        for word in ("apples", "pears", "plums"):
            found[word] = len((await harness.resources.search.search(LOCAL_USER, word, 10)).hits)
    assert found == {"apples": 1, "pears": 0, "plums": 1}


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_a_run_that_a_restart_and_a_jump_interrupt_goes_on(
    tmp_path: Path, database_location: DatabaseLocation, jump: timedelta, is_killed: bool
) -> None:
    seen: list[list[str]] = []
    now = datetime.now(UTC)
    with time_machine.travel(now, tick=True):
        async with open_at(tmp_path, script(seen, "A1", Stall(Answer("Half")))) as harness:
            runs = [await turn(harness, "Q1"), await say(harness, "Q2")]
            await wait_for_text(harness, await harness.runs.get("t", runs[1], LOCAL_USER), "Half")
            runs.append(await say(harness, "Q3", MultitaskStrategy.ENQUEUE))
    if is_killed:
        await simulate_crash(database_location)
    restart()
    with time_machine.travel(now + jump, tick=True):
        async with open_at(tmp_path, script(seen, "A2", "A3", "A4")) as harness:
            for run_id in runs[1:]:
                await join(harness, run_id)
            runs.append(await turn(harness, "Q4"))
            await assert_order(harness, TEXTS[:8], runs)
            for run in await harness.runs.list_by_thread("t", LOCAL_USER):
                numbers = [event.seq async for group in harness.runs.listen(run) for event in group]
                assert numbers == list(range(1, len(numbers) + 1))
    restart()
    with time_machine.travel(now + HOUR / 60, tick=True):
        async with open_at(tmp_path, script(seen, "A5")) as harness:
            runs.append(await turn(harness, "Q5"))
            await assert_order(harness, TEXTS, runs)
    assert [said[-1] for said in seen] == ["Q1", "Q2", "Q2", "Q3", "Q4", "Q5"] and seen[-1] == TEXTS[:9]


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_the_context_of_a_thread_is_that_of_its_latest_request(
    tmp_path: Path, database_location: DatabaseLocation, jump: timedelta
) -> None:
    async with open_database(database_location) as database:
        await database.write(lambda connection: insert_thread(connection, "t", "me", {}))
        for number, (moment, _) in enumerate(phases(jump)):
            origin, entry = (
                UsageOrigin("me", moment, "t"),
                UsageEntry("lead", "m", TokenCounts(), context_tokens=number),
            )
            await database.write(partial(record_usage, origin=origin, entries=[entry]))
            find = partial(find_latest_context, thread_id="t", owner="me", caller="lead")
            assert await database.read(find) == ("m", number)


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_threads_are_listed_by_their_latest_activity(tmp_path: Path, jump: timedelta) -> None:
    async with open_at(tmp_path, ScriptedModel.saying(*["Yes."] * 4)) as harness:
        for (moment, _), thread_id in zip(phases(jump), ("first", "second", "first"), strict=True):
            with time_machine.travel(moment, tick=True):
                request = RunRequest(thread_id, [{"type": "human", "content": "Hi"}])
                run = await harness.runs.create_or_reject(request, LOCAL_USER)
                await harness.runs.join(thread_id, run.run_id, LOCAL_USER)
                listed = await harness.threads.search(LOCAL_USER, 10, 0)
                assert listed[0].thread_id == thread_id


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_web_pages_are_listed_in_the_order_of_reading(tmp_path: Path, jump: timedelta) -> None:
    async with open_at(tmp_path, ScriptedModel.saying()) as harness:
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
        pages = harness.resources.web_pages.for_thread("t", LOCAL_USER.user_id)
        urls = [f"https://{name}.example/" for name in ("c", "b", "a")]
        for (moment, _), url in zip(phases(jump), urls, strict=True):
            with time_machine.travel(moment, tick=True):
                await pages.save(FetchedPage(url, url, "Title", "text/html", url))
        assert [page.url for page in await pages.list()] == urls


@pytest.mark.parametrize("jump", JUMPS, ids=NAMES)
async def test_facts_are_extracted_soon_wherever_the_clock_stood_at_the_end_of_the_run(
    tmp_path: Path, jump: timedelta
) -> None:
    model = ScriptedModel.saying("Noted.", build_extraction_output(TABS_FACT))
    settings = {"memory": {"debounce_seconds": 1}, "title": {"enabled": False}}
    source = open_source(directory=tmp_path, environment={}, overrides=settings)
    now = datetime.now(UTC)
    with time_machine.travel(now + jump, tick=False):  # it stands, so that nothing is due meanwhile
        async with open_harness(source, model) as harness:
            await turn(harness, "I prefer tabs")
    async with open_harness(source, model) as harness, asyncio.timeout(30):
        while await harness.core.database.read(find_next_due) is not None:
            continue
    assert len(model.requests) == 2
