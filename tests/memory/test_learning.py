"""What is told in one conversation is known in the next: the whole of it, with a scripted model."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.messages import BaseMessage

from deerflow.agents.features import RuntimeFeatures
from deerflow.config.agents import CustomAgent
from deerflow.config.source import open_source
from deerflow.domain.memory import MemoryScope
from deerflow.domain.principal import LOCAL_USER, Principal
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.memory.ledger import Ledger
from deerflow.persistence.database import open_database
from deerflow.persistence.memory_pending import next_lesson_at
from deerflow.persistence.scrubbing import scrub
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.memory.answers import learned

MINE = MemoryScope(LOCAL_USER.user_id)
LATER = {"debounce_seconds": 3600}
"""Nothing is learned before a test says so."""
TABS = {"content": "The user prefers tabs", "message": 1, "quote": "I prefer tabs"}
NOTHING = {"type": "memory", "injected": [], "considered": 0, "dropped": 0, "tokens": 0, "is_new": True}

Opener = Callable[..., AbstractAsyncContextManager[tuple[Harness, Ledger]]]


@pytest.fixture
def remembering(tmp_path: Path) -> Opener:
    """Opens a harness, and its ledger beside it; opening it again finds what the first one left."""

    @asynccontextmanager
    async def opener(
        model: ScriptedModel, features: RuntimeFeatures | None = None, **memory: object
    ) -> AsyncIterator[tuple[Harness, Ledger]]:
        overrides = {"memory": {**LATER, **memory}}
        source = open_source(directory=tmp_path, environment={}, overrides=overrides)
        place = source.current.config.database.place(source.current.home)
        async with (
            open_harness(source, model, features=features) as harness,
            open_database(place) as database,
        ):
            yield harness, Ledger(database, partial(scrub, place))

    return opener


async def tell(
    harness: Harness, thread: str, text: str, agent: AgentSpec = AgentSpec(), who: Principal = LOCAL_USER
) -> list[dict[str, Any]]:
    """Say something and wait for the answer; the receipts of the run."""
    request = RunRequest(thread, [{"type": "human", "content": text}], agent)
    run = await harness.runs.create_or_reject(request, who)
    async with asyncio.timeout(10):
        run = await harness.runs.join(thread, run.run_id, who)
    assert run.status is RunStatus.SUCCESS, run.error
    log = [event async for group in harness.runs.listen(run) for event in group]
    said = [orjson.loads(event.data) for event in log if event.event == "custom"]
    return [each for each in said if each.get("type") == "memory"]


def told(messages: Sequence[BaseMessage]) -> str:
    """What the model was told of a memory."""
    return "\n".join(message.text for message in messages if "<memory>" in message.text)


async def test_a_preference_is_known_in_the_next_thread_and_a_correction_takes_its_place(remembering: Opener) -> None:
    model = ScriptedModel.saying("Noted.", learned(TABS), "Tabs it is.")
    async with remembering(model) as (harness, ledger):
        assert await tell(harness, "one", "I prefer tabs") == [NOTHING]
        assert await harness.lessons.learn_now(MINE) == 1
        known = (await ledger.state(MINE)).facts[0]
        assert known.source is not None and (known.source.thread_id, known.source.quote) == ("one", "I prefer tabs")

        receipts = await tell(harness, "two", "Write me some code")
        assert "The user prefers tabs" in told(model.requests[2].messages)
        assert [(each["injected"], each["considered"], each["dropped"]) for each in receipts] == [([known.id], 1, 0)]
        assert receipts[0]["tokens"] > 0

        correction = {
            **{"content": "The user prefers spaces", "category": "correction", "message": 1},
            **{"sourceError": "The user prefers tabs", "replaces": [known.id]},
        }
        model._script.extend(["Sorry.", learned(), learned(correction), "Spaces."])
        await tell(harness, "three", "No, that's wrong: I prefer spaces")
        assert await harness.lessons.learn_now(MINE) == 2
        assert ["The user corrected" in model.requests[index].messages[1].text for index in (4, 5)] == [False, True]
        (corrected,) = (await ledger.state(MINE)).facts
        assert corrected.supersedes == known.id and corrected.source_error == "The user prefers tabs"

        receipts = await tell(harness, "four", "Write me some more code")
        words = told(model.requests[6].messages)
        assert "prefers spaces" in words and "prefers tabs" not in words
        assert [each["injected"] for each in receipts] == [[corrected.id]]


async def test_what_is_erased_is_told_no_more_also_where_it_was_told_before(remembering: Opener) -> None:
    likes_tea = {"content": "The user drinks tea", "message": 1}
    model = ScriptedModel.saying("Noted.", learned(TABS, likes_tea), "Hello.", "Again.", "New.")
    async with remembering(model) as (harness, ledger):
        await tell(harness, "one", "I prefer tabs, and I drink tea")
        await harness.lessons.learn_now(MINE)
        tabs, tea = (await ledger.state(MINE)).facts
        await tell(harness, "two", "Hello")
        await ledger.erase_fact(MINE, tabs.id)

        for thread, request in (("two", 3), ("new", 4)):
            receipts = await tell(harness, thread, "Hello again")
            words = told(model.requests[request].messages)
            assert "tabs" not in words and "drinks tea" in words
            assert receipts[0]["injected"] == [tea.id]
        assert receipts[0]["considered"] == 1

        await ledger.erase_all(MINE)
        model._script.append("Who are you?")
        assert await tell(harness, "last", "Hello") == [NOTHING]
        assert told(model.requests[5].messages) == ""


async def test_what_a_thread_was_told_stays_the_same_whatever_is_learned_meanwhile(remembering: Opener) -> None:
    model = ScriptedModel.saying("Noted.", learned(TABS), calling("ls", path="/mnt/user-data"), "Done.", "Well.")
    async with remembering(model) as (harness, ledger):
        await tell(harness, "one", "I prefer tabs")
        await harness.lessons.learn_now(MINE)
        await tell(harness, "two", "Look around")
        (known,) = (await ledger.state(MINE)).facts
        model._script.extend([learned({"content": "The user looks around", "message": 1}), "New."])
        model._script.rotate(2)
        assert await harness.lessons.learn_now(MINE) == 1
        model._script.rotate(-1)
        receipts = await tell(harness, "two", "And now?")
        requests = [model.requests[index].messages for index in (2, 3, 5)]
        first = [message.text for message in requests[0]]
        assert [[message.text for message in each][: len(first)] for each in requests] == [first] * 3
        assert "prefers tabs" in first[1] and "looks around" not in told(requests[2])
        assert [(each["injected"], each["is_new"]) for each in receipts] == [([known.id], False)]


async def test_a_custom_agent_and_another_person_know_nothing_of_it(remembering: Opener) -> None:
    look = calling("memory_search", query="tabs")
    model = ScriptedModel.saying("Noted.", learned(TABS), look, "Who?", look, "Whom?")
    async with remembering(model) as (harness, _):
        await tell(harness, "one", "I prefer tabs")
        await harness.lessons.learn_now(MINE)
        harness.custom_agents.create(LOCAL_USER.user_id, CustomAgent("writer"))
        await tell(harness, "two", "Do I prefer tabs?", AgentSpec(agent_name="writer", owner=LOCAL_USER.user_id))
        await tell(harness, "three", "Do I prefer tabs?", who=Principal("somebody"))
        assert [told(model.requests[index].messages) for index in (2, 4)] == ["", ""]
        assert [orjson.loads(str(model.requests[index].messages[-1].text))["count"] for index in (3, 5)] == [0, 0]
        assert await harness.lessons.learn_now(MemoryScope("nobody")) == 0


async def test_the_agent_finds_what_it_was_not_told(remembering: Opener) -> None:
    find = calling("memory_search", query="indentation tabs")
    model = ScriptedModel.saying("Noted.", learned(TABS), find, "Tabs.")
    async with remembering(model, injection_enabled=False) as (harness, _):
        await tell(harness, "one", "I prefer tabs")
        await harness.lessons.learn_now(MINE)
        await tell(harness, "two", "How do I indent?")
        assert told(model.requests[2].messages) == ""
        (found,) = orjson.loads(str(model.requests[3].messages[-1].text))["facts"]
        assert found["content"] == "The user prefers tabs"
        assert not {"memory_add", "memory_update", "memory_delete"} & set(model.requests[3].tool_names)


async def test_where_the_agent_decides_it_remembers_changes_and_forgets_by_its_tools(remembering: Opener) -> None:
    model = ScriptedModel.saying(
        calling("memory_add", content="The user drinks tea", category="preference"),
        lambda messages: calling("memory_update", fact_id=id_in(messages), content="The user drinks green tea"),
        calling("memory_delete", fact_id="fact_unknown"),
        "Done.",
    )
    async with remembering(model, mode="tool") as (harness, ledger):
        await tell(harness, "one", "I drink tea")
        (fact,) = (await ledger.state(MINE)).facts
        assert fact.content == "The user drinks green tea"
        assert [change.actor for change in await ledger.history(MINE)] == ["agent", "agent"]
        assert "no fact 'fact_unknown'" in model.requests[3].messages[-1].text
        # Nobody else reads along.
        assert await ledger.database.read(next_lesson_at) is None


def id_in(messages: Sequence[BaseMessage]) -> str:
    return str(orjson.loads(str(messages[-1].text))["added"]["id"])


@pytest.mark.parametrize("features", [RuntimeFeatures(), RuntimeFeatures(memory=False)])
async def test_a_program_that_switches_memory_off_is_neither_told_nor_listened_to(
    remembering: Opener, features: RuntimeFeatures
) -> None:
    model = ScriptedModel.saying("Noted.")
    async with remembering(model, features) as (harness, ledger):
        await tell(harness, "one", "I prefer tabs")
        assert await ledger.database.read(next_lesson_at) is None
        assert "memory_search" not in model.requests[0].tool_names


async def test_a_person_who_switches_memory_off_is_neither_told_nor_listened_to(remembering: Opener) -> None:
    model = ScriptedModel.saying("Noted.", learned(TABS), "Hello.", "Hm.")
    async with remembering(model) as (harness, ledger):
        await tell(harness, "one", "I prefer tabs")
        await harness.lessons.learn_now(MINE)
        await ledger.switch(MINE, is_off=True)
        assert await tell(harness, "two", "Hello") == []
        assert told(model.requests[2].messages) == ""
        assert await harness.lessons.learn_now(MINE) == 0


async def test_an_answer_that_makes_no_sense_is_asked_for_once_more_and_then_dropped(
    remembering: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel.saying("Noted.", "I see.", f"```json\n{learned(TABS)}\n```", "Yes.", "Hm.", "{}}")
    async with remembering(model) as (harness, ledger):
        await tell(harness, "one", "I prefer tabs")
        await harness.lessons.learn_now(MINE)
        assert "could not be read: there is no JSON object in it" in model.requests[2].messages[1].text
        assert len((await ledger.state(MINE)).facts) == 1

        await tell(harness, "two", "I like secret things")
        await harness.lessons.learn_now(MINE)
        assert "nothing is remembered of thread two" in caplog.text and "secret" not in caplog.text
        assert await ledger.database.read(next_lesson_at) is None


async def test_a_model_that_fails_is_asked_again_later_and_no_run_is_the_worse_for_it(remembering: Opener) -> None:
    model = ScriptedModel.saying("Noted.", RuntimeError("no"), "Hello.", learned(TABS))
    async with remembering(model) as (harness, ledger):
        await tell(harness, "one", "I prefer tabs")
        await harness.lessons.learn_now(MINE)
        assert not (await ledger.state(MINE)).facts
        assert await ledger.database.read(next_lesson_at) is not None
        await tell(harness, "one", "Hello")
        await harness.lessons.learn_now(MINE)
        assert len((await ledger.state(MINE)).facts) == 1
        # What waited and what came are read together, and only once.
        read = model.requests[3].messages[1].text
        assert read.index("I prefer tabs") < read.index("Noted.") < read.index('"Hello"')
        assert await harness.lessons.learn_now(MINE) == 0


async def test_what_waits_survives_the_end_of_the_process_and_is_learned_by_itself(remembering: Opener) -> None:
    async with remembering(ScriptedModel.saying("Noted.")) as (harness, ledger):
        await tell(harness, "one", "I prefer tabs")
    asked = asyncio.Event()

    def answer(messages: Sequence[BaseMessage]) -> str:
        asked.set()
        return learned(TABS)

    async with remembering(ScriptedModel.saying("Yes.", answer), debounce_seconds=0) as (harness, ledger):
        await tell(harness, "one", "Really")
        async with asyncio.timeout(10):
            await asked.wait()
        await until_learned(ledger)
        assert [fact.content for fact in (await ledger.state(MINE)).facts] == ["The user prefers tabs"]


async def test_a_server_that_stops_while_the_model_thinks_leaves_the_thread_to_the_next_one(
    remembering: Opener,
) -> None:
    model = ScriptedModel.saying("Noted.", Stall(Answer("{")))
    async with remembering(model, debounce_seconds=0) as (harness, _):
        await tell(harness, "one", "I prefer tabs")
        async with asyncio.timeout(10):
            await model.waiting.wait()
    async with remembering(ScriptedModel.saying(learned(TABS))) as (harness, ledger):
        # It is due: whoever looks first learns it.
        await harness.lessons.learn_now(MINE)
        await until_learned(ledger)
        assert len((await ledger.state(MINE)).facts) == 1


async def until_learned(ledger: Ledger) -> None:
    async with asyncio.timeout(10):
        while await ledger.database.read(next_lesson_at) is not None:
            continue


async def test_what_it_took_to_learn_is_on_the_bill(remembering: Opener) -> None:
    async with remembering(ScriptedModel.saying("Noted.", learned(TABS))) as (harness, _):
        await tell(harness, "one", "I prefer tabs")
        await harness.lessons.learn_now(MINE)
        usage = await harness.resources.usage.of_thread("one", LOCAL_USER)
        assert {share.name: share.spent.counts.calls for share in usage.by_caller} == {"lead_agent": 1, "memory": 1}
