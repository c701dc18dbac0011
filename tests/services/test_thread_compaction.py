"""Compaction of a thread on request."""

import asyncio
from pathlib import Path

import orjson
import pytest

from deerflow.agent_support.replies import EARLIER_NOTES
from deerflow.config.source import open_source
from deerflow.domain.errors import Conflict, ModelRejected, NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.support import OpenHarness


async def say(harness: Harness, text: str) -> None:
    run = await harness.runs.create_or_reject(RunRequest("t", [{"type": "human", "content": text}]), LOCAL_USER)
    async with asyncio.timeout(20):
        await harness.runs.join("t", run.run_id, LOCAL_USER)


async def read_state_texts(harness: Harness) -> list[str]:
    values = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return [message["content"] for message in values["messages"]]


@pytest.mark.slow
async def test_earlier_messages_leave_the_context_for_a_summary(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("One.", "Two.", "Three.", "Notes: the person counts to three.", "Four.")
    async with harness_saying(model) as harness:
        for text in ("count one", "count two", "count three"):
            await say(harness, text)
        result = await harness.compaction.compact("t", LOCAL_USER)
        assert (result.summarized, result.reason) == (4, None)
        assert await read_state_texts(harness) == ["count three", "Three."]
        kept = orjson.loads(await harness.threads.messages("t", LOCAL_USER))["messages"]
        assert [message["content"] for message in kept if message["type"] == "human"] == [
            "count one",
            "count two",
            "count three",
        ]
        notes = [message["additional_kwargs"].get(EARLIER_NOTES, "") for message in kept]
        assert any("the person counts to three" in each for each in notes)
        page = await harness.threads.messages_page("t", LOCAL_USER, None, 10)
        assert [len({each.run_id for each in page.messages[at : at + 2]}) for at in (0, 2, 4)] == [1, 1, 1]
        await say(harness, "count four")
        asked = str([message.content for message in model.requests[-1].messages])
        assert "the person counts to three" in asked and "count one" not in asked.replace("counts", "")


@pytest.mark.slow
async def test_the_summary_is_shown_to_the_model_also_if_automatic_summarization_is_disabled(tmp_path: Path) -> None:
    model = ScriptedModel.saying("One.", "Two.", "Notes: the person counts to three.", "Three.", "Four.")
    settings = {"memory": {"enabled": False}, "title": {"enabled": False}, "summarization": {"enabled": False}}
    source = open_source(directory=tmp_path, environment={}, overrides=settings)
    async with open_harness(source, model) as harness:
        await say(harness, "count one")
        await say(harness, "count two")
        assert (await harness.compaction.compact("t", LOCAL_USER)).summarized == 2
        for text in ("count three", "count four"):
            await say(harness, text)
            asked = [message.text for message in model.requests[-1].messages]
            assert sum("the person counts to three" in each for each in asked) == 1
            assert text in asked and "count one" not in asked


async def test_a_failing_model_leaves_the_thread_unchanged(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("One.", "Two.", ModelRejected("no credit"))
    async with harness_saying(model) as harness:
        await say(harness, "count one")
        await say(harness, "count two")
        before = await read_state_texts(harness)
        result = await harness.compaction.compact("t", LOCAL_USER)
        assert result.summarized == 0 and result.reason == "the model failed: ModelRejected"
        assert await read_state_texts(harness) == before


async def test_there_is_nothing_to_summarize_in_a_short_thread(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One.")) as harness:
        await say(harness, "count one")
        result = await harness.compaction.compact("t", LOCAL_USER)
        assert (result.summarized, result.reason) == (0, "there is nothing to summarize yet")


async def test_busy_foreign_and_unknown_threads_are_refused(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Answer("One."), Stall())
    async with harness_saying(model) as harness:
        await say(harness, "count one")
        for thread_id, who in (("t", Principal("other")), ("none", LOCAL_USER)):
            with pytest.raises(NotFound):
                await harness.compaction.compact(thread_id, who)
        run = await harness.runs.create_or_reject(RunRequest("t", [{"type": "human", "content": "two"}]), LOCAL_USER)
        async with asyncio.timeout(20):
            await model.waiting.wait()
        with pytest.raises(Conflict):
            await harness.compaction.compact("t", LOCAL_USER)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
