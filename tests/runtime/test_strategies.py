"""A second message for a thread that is busy: five ways to deal with it, and every one leaves a sound conversation."""

import asyncio
import os
from pathlib import Path

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.errors import Conflict, ModelRejected
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, MultitaskStrategy, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.support import OpenHarness


def saying(text: str, strategy: MultitaskStrategy = MultitaskStrategy.REJECT, key: str | None = None) -> RunRequest:
    content = [{"type": "human", "content": text}]
    return RunRequest("t", content, multitask_strategy=strategy, idempotency_key=key)


async def spoken(harness: Harness, run: RunRecord) -> None:
    """Wait until the run has said something."""
    async for group in harness.runs.listen(run):
        if any(event.event == "messages" for event in group):
            return


async def until(harness: Harness, run: RunRecord, event: str) -> None:
    """Wait until an event of that name has come."""
    async for group in harness.runs.listen(run):
        if any(each.event == event for each in group):
            return


async def ended(harness: Harness, run: RunRecord) -> RunRecord:
    return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def said(harness: Harness) -> list[str]:
    state = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return [message["content"] for message in state["messages"]]


async def known(harness: Harness) -> list[str]:
    """What somebody knows who has read every event of the thread."""
    (last, *_) = await harness.runs.list_by_thread("t", LOCAL_USER)
    state = orjson.loads((await harness.runs.state_before(last, after=10**9)).to_json())
    return [message["content"] for message in state["messages"]]


async def test_rejected_by_default(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness, asyncio.timeout(10):
        run = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
        await spoken(harness, run)
        with pytest.raises(Conflict, match="busy"):
            await harness.runs.create_or_reject(saying("two"), LOCAL_USER)
        await harness.runs.stop(run.run_id)
        assert await said(harness) == ["one", "Half"]


async def test_interrupt_keeps_the_partial_answer(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("Zero.", Stall(Answer("Half")), "Second.")
    async with harness_saying(model) as harness, asyncio.timeout(10):
        await ended(harness, await harness.runs.create_or_reject(saying("zero"), LOCAL_USER))
        first = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
        await spoken(harness, first)
        second = await harness.runs.create_or_reject(saying("two", MultitaskStrategy.INTERRUPT), LOCAL_USER)
        assert (await ended(harness, second)).status is RunStatus.SUCCESS
        assert (await ended(harness, first)).status is RunStatus.INTERRUPTED
        assert await said(harness) == await known(harness) == ["zero", "Zero.", "one", "Half", "two", "Second."]


async def test_rollback_removes_the_run(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("Zero.", Stall(Answer("Half")), "Second.")
    async with harness_saying(model) as harness, asyncio.timeout(10):
        await ended(harness, await harness.runs.create_or_reject(saying("zero"), LOCAL_USER))
        first = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
        await spoken(harness, first)
        second = await harness.runs.create_or_reject(saying("two", MultitaskStrategy.ROLLBACK), LOCAL_USER)
        assert (await ended(harness, second)).status is RunStatus.SUCCESS
        undone = await ended(harness, first)
        assert (undone.status, undone.error) == (RunStatus.ERROR, "rolled back by the user")
        assert await said(harness) == await known(harness) == ["zero", "Zero.", "two", "Second."]


async def test_enqueue_waits_for_the_active_run(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("First.")), "Second.", "Third.")
    async with harness_saying(model) as harness, asyncio.timeout(10):
        first = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
        await spoken(harness, first)
        later = [
            await harness.runs.create_or_reject(saying(text, MultitaskStrategy.ENQUEUE), LOCAL_USER)
            for text in ("two", "three")
        ]
        assert [run.status for run in later] == [RunStatus.PENDING] * 2
        await harness.runs.stop(first.run_id)
        assert [(await ended(harness, run)).status for run in later] == [RunStatus.SUCCESS] * 2
        assert await said(harness) == ["one", "First.", "two", "Second.", "three", "Third."]


async def test_a_pending_run_can_be_cancelled_and_survives_a_restart(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(20):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("First.")))) as harness:
            first = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
            await spoken(harness, first)
            dropped = await harness.runs.create_or_reject(saying("two", MultitaskStrategy.ENQUEUE), LOCAL_USER)
            waiting = await harness.runs.create_or_reject(saying("three", MultitaskStrategy.ENQUEUE), LOCAL_USER)
            await harness.runs.cancel("t", dropped.run_id, LOCAL_USER)
            assert (await ended(harness, dropped)).status is RunStatus.INTERRUPTED
        async with harness_saying(ScriptedModel.saying("First again.", "Third.")) as harness:
            assert (await ended(harness, first)).status is RunStatus.SUCCESS
            assert (await ended(harness, waiting)).status is RunStatus.SUCCESS
            assert await said(harness) == ["one", "First again.", "three", "Third."]


async def test_cancelling_a_first_run_with_rollback_leaves_nothing(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")), "Second.")) as harness, asyncio.timeout(10):
        run = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
        await spoken(harness, run)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert await said(harness) == await known(harness) == []
        after = await harness.runs.create_or_reject(saying("two"), LOCAL_USER)
        assert (await ended(harness, after)).status is RunStatus.SUCCESS
        assert await said(harness) == ["two", "Second."]


def wait_for(bell: str) -> str:
    """Wait until somebody rings.

    Args:
        bell: A pipe.
    """
    return Path(bell).read_text()


WAITS = {"name": "wait_for", "group": "test", "use": "tests.runtime.test_strategies:wait_for"}


async def test_a_steering_message_is_added_before_the_next_model_call(tmp_path: Path) -> None:
    bell = tmp_path / "bell"
    os.mkfifo(bell)
    model = ScriptedModel.saying(calling("wait_for", bell=str(bell)), "As you wish.")
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": [WAITS]})
    async with open_harness(source, model) as harness, asyncio.timeout(10):
        first = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
        await until(harness, first, "tool_intent")
        second = await harness.runs.create_or_reject(saying("two", MultitaskStrategy.STEER), LOCAL_USER)
        assert second.status is RunStatus.PENDING
        await asyncio.to_thread(bell.write_text, "it is there")
        assert (await ended(harness, first)).status is RunStatus.SUCCESS
        assert (await ended(harness, second)).status is RunStatus.SUCCESS
        assert await said(harness) == await known(harness) == ["one", "", "it is there", "two", "As you wish."]
        assert [message.text for message in model.requests[1].messages if message.type == "human"][-1] == "two"


async def test_a_late_steering_message_starts_its_own_run(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")), "Second.")) as harness, asyncio.timeout(10):
        first = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
        await spoken(harness, first)
        second = await harness.runs.create_or_reject(saying("two", MultitaskStrategy.STEER), LOCAL_USER)
        await harness.runs.stop(first.run_id)
        assert (await ended(harness, second)).status is RunStatus.SUCCESS
        assert await said(harness) == ["one", "Half", "two", "Second."]


async def test_a_steering_message_is_kept_when_the_run_fails(tmp_path: Path) -> None:
    bell = tmp_path / "bell"
    os.mkfifo(bell)
    model = ScriptedModel.saying(calling("wait_for", bell=str(bell)), ModelRejected("no"))
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": [WAITS]})
    async with open_harness(source, model) as harness, asyncio.timeout(10):
        first = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
        await until(harness, first, "tool_intent")
        await harness.runs.create_or_reject(saying("two", MultitaskStrategy.STEER), LOCAL_USER)
        await asyncio.to_thread(bell.write_text, "it is there")
        assert (await ended(harness, first)).status is RunStatus.ERROR
        assert await said(harness) == await known(harness) == ["one", "", "it is there", "two"]


async def test_twenty_submits_with_one_idempotency_key_create_one_run(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Once.")) as harness, asyncio.timeout(10):
        request = saying("one", key="k")
        runs = await asyncio.gather(*(harness.runs.create_or_reject(request, LOCAL_USER) for _ in range(20)))
        assert len({run.run_id for run in runs}) == 1
        assert (await ended(harness, runs[0])).status is RunStatus.SUCCESS
        again = await harness.runs.create_or_reject(request, LOCAL_USER)
        assert again.run_id == runs[0].run_id
        with pytest.raises(Conflict, match="used for another request"):
            await harness.runs.create_or_reject(saying("two", key="k"), LOCAL_USER)
        assert await said(harness) == ["one", "Once."]
