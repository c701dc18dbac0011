"""A second message for a thread that is busy: five ways to deal with it, and every one leaves a sound conversation."""

import asyncio
import os
from pathlib import Path

import pytest

from deerflow.config.source import open_source
from deerflow.domain.errors import Conflict, ModelRejected
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, MultitaskStrategy, RunRecord, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.runtime.support import build_request, read_contents, replay_contents, wait_for_event
from tests.support import OpenHarness


async def join_run(harness: Harness, run: RunRecord) -> RunRecord:
    return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def test_rejected_by_default(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness, asyncio.timeout(10):
        run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_event(harness, run, "messages")
        with pytest.raises(Conflict, match="busy"):
            await harness.runs.create_or_reject(build_request("two"), LOCAL_USER)
        await harness.runs.stop(run.run_id)
        assert await read_contents(harness) == ["one", "Half"]


async def test_interrupt_keeps_the_partial_answer(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("Zero.", Stall(Answer("Half")), "Second.")
    async with harness_saying(model) as harness, asyncio.timeout(10):
        await join_run(harness, await harness.runs.create_or_reject(build_request("zero"), LOCAL_USER))
        first = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_event(harness, first, "messages")
        second = await harness.runs.create_or_reject(
            build_request("two", strategy=MultitaskStrategy.INTERRUPT), LOCAL_USER
        )
        assert (await join_run(harness, second)).status is RunStatus.SUCCESS
        assert (await join_run(harness, first)).status is RunStatus.INTERRUPTED
        assert (
            await read_contents(harness)
            == await replay_contents(harness)
            == ["zero", "Zero.", "one", "Half", "two", "Second."]
        )


async def test_rollback_removes_the_run(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("Zero.", Stall(Answer("Half")), "Second.")
    async with harness_saying(model) as harness, asyncio.timeout(10):
        await join_run(harness, await harness.runs.create_or_reject(build_request("zero"), LOCAL_USER))
        first = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_event(harness, first, "messages")
        second = await harness.runs.create_or_reject(
            build_request("two", strategy=MultitaskStrategy.ROLLBACK), LOCAL_USER
        )
        assert (await join_run(harness, second)).status is RunStatus.SUCCESS
        undone = await join_run(harness, first)
        assert (undone.status, undone.error) == (RunStatus.ERROR, "rolled back by the user")
        assert await read_contents(harness) == await replay_contents(harness) == ["zero", "Zero.", "two", "Second."]


async def test_enqueue_waits_for_the_active_run(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("First.")), "Second.", "Third.")
    async with harness_saying(model) as harness, asyncio.timeout(10):
        first = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_event(harness, first, "messages")
        later = [
            await harness.runs.create_or_reject(build_request(text, strategy=MultitaskStrategy.ENQUEUE), LOCAL_USER)
            for text in ("two", "three")
        ]
        assert [run.status for run in later] == [RunStatus.PENDING] * 2
        await harness.runs.stop(first.run_id)
        assert [(await join_run(harness, run)).status for run in later] == [RunStatus.SUCCESS] * 2
        assert await read_contents(harness) == ["one", "First.", "two", "Second.", "three", "Third."]


async def test_a_pending_run_can_be_cancelled_and_survives_a_restart(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(20):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("First.")))) as harness:
            first = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
            await wait_for_event(harness, first, "messages")
            dropped = await harness.runs.create_or_reject(
                build_request("two", strategy=MultitaskStrategy.ENQUEUE), LOCAL_USER
            )
            waiting = await harness.runs.create_or_reject(
                build_request("three", strategy=MultitaskStrategy.ENQUEUE), LOCAL_USER
            )
            await harness.runs.cancel("t", dropped.run_id, LOCAL_USER)
            assert (await join_run(harness, dropped)).status is RunStatus.INTERRUPTED
        async with harness_saying(ScriptedModel.saying("First again.", "Third.")) as harness:
            assert (await join_run(harness, first)).status is RunStatus.SUCCESS
            assert (await join_run(harness, waiting)).status is RunStatus.SUCCESS
            assert await read_contents(harness) == ["one", "First again.", "three", "Third."]


async def test_cancelling_a_first_run_with_rollback_leaves_nothing(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")), "Second.")) as harness, asyncio.timeout(10):
        run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_event(harness, run, "messages")
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert await read_contents(harness) == await replay_contents(harness) == []
        after = await harness.runs.create_or_reject(build_request("two"), LOCAL_USER)
        assert (await join_run(harness, after)).status is RunStatus.SUCCESS
        assert await read_contents(harness) == ["two", "Second."]


def wait_for(bell: str) -> str:
    """Wait until somebody rings.

    Args:
        bell: A pipe.
    """
    return Path(bell).read_text()


WAIT_TOOL = {"name": "wait_for", "group": "test", "use": "tests.runtime.test_strategies:wait_for"}


async def test_a_steering_message_is_added_before_the_next_model_call(tmp_path: Path) -> None:
    bell = tmp_path / "bell"
    os.mkfifo(bell)
    model = ScriptedModel.saying(calling("wait_for", bell=str(bell)), "As you wish.")
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": [WAIT_TOOL]})
    async with open_harness(source, model) as harness, asyncio.timeout(10):
        first = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_event(harness, first, "tool_intent")
        second = await harness.runs.create_or_reject(build_request("two", strategy=MultitaskStrategy.STEER), LOCAL_USER)
        assert second.status is RunStatus.PENDING
        await asyncio.to_thread(bell.write_text, "it is there")
        assert (await join_run(harness, first)).status is RunStatus.SUCCESS
        assert (await join_run(harness, second)).status is RunStatus.SUCCESS
        assert (
            await read_contents(harness)
            == await replay_contents(harness)
            == ["one", "", "it is there", "two", "As you wish."]
        )
        assert [message.text for message in model.requests[1].messages if message.type == "human"][-1] == "two"


async def test_a_late_steering_message_starts_its_own_run(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")), "Second.")) as harness, asyncio.timeout(10):
        first = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_event(harness, first, "messages")
        second = await harness.runs.create_or_reject(build_request("two", strategy=MultitaskStrategy.STEER), LOCAL_USER)
        await harness.runs.stop(first.run_id)
        assert (await join_run(harness, second)).status is RunStatus.SUCCESS
        assert await read_contents(harness) == ["one", "Half", "two", "Second."]


async def test_a_steering_message_is_kept_when_the_run_fails(tmp_path: Path) -> None:
    bell = tmp_path / "bell"
    os.mkfifo(bell)
    model = ScriptedModel.saying(calling("wait_for", bell=str(bell)), ModelRejected("no"))
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": [WAIT_TOOL]})
    async with open_harness(source, model) as harness, asyncio.timeout(10):
        first = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_event(harness, first, "tool_intent")
        await harness.runs.create_or_reject(build_request("two", strategy=MultitaskStrategy.STEER), LOCAL_USER)
        await asyncio.to_thread(bell.write_text, "it is there")
        assert (await join_run(harness, first)).status is RunStatus.ERROR
        assert await read_contents(harness) == await replay_contents(harness) == ["one", "", "it is there", "two"]


async def test_twenty_submits_with_one_idempotency_key_create_one_run(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Once.")) as harness, asyncio.timeout(10):
        request = build_request("one", key="k")
        runs = await asyncio.gather(*(harness.runs.create_or_reject(request, LOCAL_USER) for _ in range(20)))
        assert len({run.run_id for run in runs}) == 1
        assert (await join_run(harness, runs[0])).status is RunStatus.SUCCESS
        again = await harness.runs.create_or_reject(request, LOCAL_USER)
        assert again.run_id == runs[0].run_id
        with pytest.raises(Conflict, match="used for another request"):
            await harness.runs.create_or_reject(build_request("two", key="k"), LOCAL_USER)
        assert await read_contents(harness) == ["one", "Once."]
