"""Extraction and injection across threads, end to end with a scripted model."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.messages import BaseMessage

from deerflow.agents.features import RuntimeFeatures
from deerflow.config.sections.agents import CustomAgent
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.memory import MemoryScope
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.memory.ledger import Ledger
from deerflow.memory.queries.pending import find_next_due
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.maintenance import Purger
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.memory.support import LOCAL_SCOPE, LONG_DEBOUNCE, TABS_FACT, build_extraction_output, extract_now

EMPTY_RECEIPT = {"type": "memory", "injected": [], "considered": 0, "dropped": 0, "tokens": 0, "is_new": True}

OpenMemoryHarness = Callable[..., AbstractAsyncContextManager[tuple[Harness, Ledger]]]


@pytest.fixture
def open_memory_harness(tmp_path: Path) -> OpenMemoryHarness:
    """Return a function that opens a harness and its ledger; all of them use the same database."""

    @asynccontextmanager
    async def opener(
        model: ScriptedModel, features: RuntimeFeatures | None = None, **memory: object
    ) -> AsyncIterator[tuple[Harness, Ledger]]:
        overrides = {"memory": {**LONG_DEBOUNCE, **memory}}
        source = open_source(directory=tmp_path, environment={}, overrides=overrides)
        place = source.current.config.database.get_location(source.current.home)
        async with (
            open_harness(source, model, features=features) as harness,
            open_database(place) as database,
        ):
            yield harness, Ledger(database, Purger(place).purge)

    return opener


async def send_message(
    harness: Harness, thread: str, text: str, agent: AgentSpec = AgentSpec(), who: Principal = LOCAL_USER
) -> list[dict[str, Any]]:
    """Send a message, wait for the end of its run and return its memory receipts."""
    request = RunRequest(thread, [{"type": "human", "content": text}], agent)
    run = await harness.runs.create_or_reject(request, who)
    async with asyncio.timeout(10):
        run = await harness.runs.join(thread, run.run_id, who)
    assert run.status is RunStatus.SUCCESS, run.error
    log = [event async for group in harness.runs.listen(run) for event in group]
    said = [orjson.loads(event.data) for event in log if event.event == "custom"]
    return [each for each in said if each.get("type") == "memory"]


def find_injected_memory(messages: Sequence[BaseMessage]) -> str:
    """Return the memory that was injected into a request."""
    return "\n".join(message.text for message in messages if "<memory>" in message.text)


async def test_injects_extracted_facts_and_their_corrections_in_later_threads(
    open_memory_harness: OpenMemoryHarness,
) -> None:
    model = ScriptedModel.saying("Noted.", build_extraction_output(TABS_FACT), "Tabs it is.")
    async with open_memory_harness(model) as (harness, ledger):
        assert await send_message(harness, "one", "I prefer tabs") == [EMPTY_RECEIPT]
        assert await extract_now(harness, LOCAL_SCOPE) == 1
        known = (await ledger.read_state(LOCAL_SCOPE)).facts[0]
        assert known.source is not None and (known.source.thread_id, known.source.quote) == ("one", "I prefer tabs")

        receipts = await send_message(harness, "two", "Write me some code")
        assert "The user prefers tabs" in find_injected_memory(model.requests[2].messages)
        assert [(each["injected"], each["considered"], each["dropped"]) for each in receipts] == [([known.id], 1, 0)]
        assert receipts[0]["tokens"] > 0

        correction = {
            **{"content": "The user prefers spaces", "category": "correction", "message": 1},
            **{"sourceError": "The user prefers tabs", "replaces": [known.id]},
        }
        model._script.extend(["Sorry.", build_extraction_output(), build_extraction_output(correction), "Spaces."])
        await send_message(harness, "three", "No, that's wrong: I prefer spaces")
        assert await extract_now(harness, LOCAL_SCOPE) == 2
        assert ["The user corrected" in model.requests[index].messages[1].text for index in (4, 5)] == [False, True]
        (corrected,) = (await ledger.read_state(LOCAL_SCOPE)).facts
        assert corrected.supersedes == known.id and corrected.source_error == "The user prefers tabs"

        receipts = await send_message(harness, "four", "Write me some more code")
        words = find_injected_memory(model.requests[6].messages)
        assert "prefers spaces" in words and "prefers tabs" not in words
        assert [each["injected"] for each in receipts] == [[corrected.id]]


async def test_does_not_inject_erased_facts_again(open_memory_harness: OpenMemoryHarness) -> None:
    likes_tea = {"content": "The user drinks tea", "message": 1}
    model = ScriptedModel.saying("Noted.", build_extraction_output(TABS_FACT, likes_tea), "Hello.", "Again.", "New.")
    async with open_memory_harness(model) as (harness, ledger):
        await send_message(harness, "one", "I prefer tabs, and I drink tea")
        await extract_now(harness, LOCAL_SCOPE)
        tabs, tea = (await ledger.read_state(LOCAL_SCOPE)).facts
        await send_message(harness, "two", "Hello")
        await ledger.erase_fact(LOCAL_SCOPE, tabs.id)

        for thread, request in (("two", 3), ("new", 4)):
            receipts = await send_message(harness, thread, "Hello again")
            words = find_injected_memory(model.requests[request].messages)
            assert "tabs" not in words and "drinks tea" in words
            assert receipts[0]["injected"] == [tea.id]
        assert receipts[0]["considered"] == 1

        await ledger.erase_all(LOCAL_SCOPE)
        model._script.append("Who are you?")
        assert await send_message(harness, "last", "Hello") == [EMPTY_RECEIPT]
        assert find_injected_memory(model.requests[5].messages) == ""


async def test_the_injection_of_a_thread_does_not_change(open_memory_harness: OpenMemoryHarness) -> None:
    model = ScriptedModel.saying(
        "Noted.", build_extraction_output(TABS_FACT), calling("ls", path="/mnt/user-data"), "Done.", "Well."
    )
    async with open_memory_harness(model) as (harness, ledger):
        await send_message(harness, "one", "I prefer tabs")
        await extract_now(harness, LOCAL_SCOPE)
        await send_message(harness, "two", "Look around")
        (known,) = (await ledger.read_state(LOCAL_SCOPE)).facts
        model._script.extend([build_extraction_output({"content": "The user looks around", "message": 1}), "New."])
        model._script.rotate(2)
        assert await extract_now(harness, LOCAL_SCOPE) == 1
        model._script.rotate(-1)
        receipts = await send_message(harness, "two", "And now?")
        requests = [model.requests[index].messages for index in (2, 3, 5)]
        first = [message.text for message in requests[0]]
        assert [[message.text for message in each][: len(first)] for each in requests] == [first] * 3
        assert "prefers tabs" in first[1] and "looks around" not in find_injected_memory(requests[2])
        assert [(each["injected"], each["is_new"]) for each in receipts] == [([known.id], False)]


async def test_memories_of_agents_and_users_are_separate(open_memory_harness: OpenMemoryHarness) -> None:
    look = calling("memory_search", query="tabs")
    model = ScriptedModel.saying("Noted.", build_extraction_output(TABS_FACT), look, "Who?", look, "Whom?")
    async with open_memory_harness(model) as (harness, _):
        await send_message(harness, "one", "I prefer tabs")
        await extract_now(harness, LOCAL_SCOPE)
        harness.core.custom_agents.create(LOCAL_USER.user_id, CustomAgent("writer"))
        await send_message(
            harness, "two", "Do I prefer tabs?", AgentSpec(agent_name="writer", owner=LOCAL_USER.user_id)
        )
        await send_message(harness, "three", "Do I prefer tabs?", who=Principal("somebody"))
        assert [find_injected_memory(model.requests[index].messages) for index in (2, 4)] == ["", ""]
        assert [orjson.loads(str(model.requests[index].messages[-1].text))["count"] for index in (3, 5)] == [0, 0]
        assert await extract_now(harness, MemoryScope("nobody")) == 0


async def test_the_agent_finds_facts_that_were_not_injected(open_memory_harness: OpenMemoryHarness) -> None:
    find = calling("memory_search", query="indentation tabs")
    model = ScriptedModel.saying("Noted.", build_extraction_output(TABS_FACT), find, "Tabs.")
    async with open_memory_harness(model, injection_enabled=False) as (harness, _):
        await send_message(harness, "one", "I prefer tabs")
        await extract_now(harness, LOCAL_SCOPE)
        await send_message(harness, "two", "How do I indent?")
        assert find_injected_memory(model.requests[2].messages) == ""
        (found,) = orjson.loads(str(model.requests[3].messages[-1].text))["facts"]
        assert found["content"] == "The user prefers tabs"
        assert not {"memory_add", "memory_update", "memory_delete"} & set(model.requests[3].tool_names)


async def test_the_agent_edits_memory_with_its_tools(open_memory_harness: OpenMemoryHarness) -> None:
    model = ScriptedModel.saying(
        calling("memory_add", content="The user drinks tea", category="preference"),
        lambda messages: calling("memory_update", fact_id=get_added_id(messages), content="The user drinks green tea"),
        calling("memory_delete", fact_id="fact_unknown"),
        "Done.",
    )
    async with open_memory_harness(model, mode="tool") as (harness, ledger):
        await send_message(harness, "one", "I drink tea")
        (fact,) = (await ledger.read_state(LOCAL_SCOPE)).facts
        assert fact.content == "The user drinks green tea"
        assert [change.actor for change in await ledger.read_history(LOCAL_SCOPE)] == ["agent", "agent"]
        assert "no fact 'fact_unknown'" in model.requests[3].messages[-1].text
        # Nobody else reads along.
        assert await ledger.database.read(find_next_due) is None


def get_added_id(messages: Sequence[BaseMessage]) -> str:
    return str(orjson.loads(str(messages[-1].text))["added"]["id"])


@pytest.mark.parametrize("features", [RuntimeFeatures(), RuntimeFeatures(memory=False)])
async def test_memory_disabled_by_a_program_is_neither_injected_nor_extracted(
    open_memory_harness: OpenMemoryHarness, features: RuntimeFeatures
) -> None:
    model = ScriptedModel.saying("Noted.")
    async with open_memory_harness(model, features) as (harness, ledger):
        await send_message(harness, "one", "I prefer tabs")
        assert await ledger.database.read(find_next_due) is None
        assert "memory_search" not in model.requests[0].tool_names


async def test_memory_disabled_by_the_user_is_neither_injected_nor_extracted(
    open_memory_harness: OpenMemoryHarness,
) -> None:
    model = ScriptedModel.saying("Noted.", build_extraction_output(TABS_FACT), "Hello.", "Hm.")
    async with open_memory_harness(model) as (harness, ledger):
        await send_message(harness, "one", "I prefer tabs")
        await extract_now(harness, LOCAL_SCOPE)
        await ledger.set_off(LOCAL_SCOPE, is_off=True)
        assert await send_message(harness, "two", "Hello") == []
        assert find_injected_memory(model.requests[2].messages) == ""
        assert await extract_now(harness, LOCAL_SCOPE) == 0


async def test_repeats_an_extraction_once_after_invalid_output(
    open_memory_harness: OpenMemoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel.saying(
        "Noted.", "I see.", f"```json\n{build_extraction_output(TABS_FACT)}\n```", "Yes.", "Hm.", "{}}"
    )
    async with open_memory_harness(model) as (harness, ledger):
        await send_message(harness, "one", "I prefer tabs")
        await extract_now(harness, LOCAL_SCOPE)
        assert "could not be read: there is no JSON object in it" in model.requests[2].messages[1].text
        assert len((await ledger.read_state(LOCAL_SCOPE)).facts) == 1

        await send_message(harness, "two", "I like secret things")
        await extract_now(harness, LOCAL_SCOPE)
        assert "no memory extracted from thread two" in caplog.text and "secret" not in caplog.text
        assert await ledger.database.read(find_next_due) is None


async def test_retries_an_extraction_after_a_model_failure(open_memory_harness: OpenMemoryHarness) -> None:
    model = ScriptedModel.saying("Noted.", RuntimeError("no"), "Hello.", build_extraction_output(TABS_FACT))
    async with open_memory_harness(model) as (harness, ledger):
        await send_message(harness, "one", "I prefer tabs")
        await extract_now(harness, LOCAL_SCOPE)
        assert not (await ledger.read_state(LOCAL_SCOPE)).facts
        assert await ledger.database.read(find_next_due) is not None
        await send_message(harness, "one", "Hello")
        await extract_now(harness, LOCAL_SCOPE)
        assert len((await ledger.read_state(LOCAL_SCOPE)).facts) == 1
        # What waited and what came are read together, and only once.
        read = model.requests[3].messages[1].text
        assert read.index("I prefer tabs") < read.index("Noted.") < read.index('"Hello"')
        assert await extract_now(harness, LOCAL_SCOPE) == 0


async def test_pending_extractions_survive_a_restart(open_memory_harness: OpenMemoryHarness) -> None:
    async with open_memory_harness(ScriptedModel.saying("Noted.")) as (harness, ledger):
        await send_message(harness, "one", "I prefer tabs")
    asked = asyncio.Event()

    def answer(messages: Sequence[BaseMessage]) -> str:
        asked.set()
        return build_extraction_output(TABS_FACT)

    # None waits longer than the quiet period of now, which is shorter.
    async with open_memory_harness(ScriptedModel.saying(answer), debounce_seconds=0) as (harness, ledger):
        async with asyncio.timeout(10):
            await asked.wait()
        await wait_until_extracted(ledger)
        assert [fact.content for fact in (await ledger.read_state(LOCAL_SCOPE)).facts] == ["The user prefers tabs"]


async def test_a_stopped_server_releases_its_extraction(
    open_memory_harness: OpenMemoryHarness,
) -> None:
    model = ScriptedModel.saying("Noted.", Stall(Answer("{")))
    async with open_memory_harness(model, debounce_seconds=0) as (harness, _):
        await send_message(harness, "one", "I prefer tabs")
        async with asyncio.timeout(10):
            await model.waiting.wait()
    async with open_memory_harness(ScriptedModel.saying(build_extraction_output(TABS_FACT))) as (harness, ledger):
        # It is due: whoever looks first learns it.
        await extract_now(harness, LOCAL_SCOPE)
        await wait_until_extracted(ledger)
        assert len((await ledger.read_state(LOCAL_SCOPE)).facts) == 1


async def wait_until_extracted(ledger: Ledger) -> None:
    async with asyncio.timeout(10):
        while await ledger.database.read(find_next_due) is not None:
            continue


async def test_records_the_usage_of_extractions(open_memory_harness: OpenMemoryHarness) -> None:
    async with open_memory_harness(ScriptedModel.saying("Noted.", build_extraction_output(TABS_FACT))) as (harness, _):
        await send_message(harness, "one", "I prefer tabs")
        await extract_now(harness, LOCAL_SCOPE)
        usage = await harness.resources.usage.get_thread_usage("one", LOCAL_USER)
        assert {share.name: share.spending.counts.calls for share in usage.by_caller} == {"lead_agent": 1, "memory": 1}
