"""Runs that start from a checkpoint or are interrupted."""

import asyncio
from typing import Any

import orjson
import pytest

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.runtime.support import read_contents, replay_contents
from tests.support import OpenHarness


def build_request(text: str, **more: Any) -> RunRequest:
    return RunRequest("t", [{"type": "human", "content": text}], **more)


async def finish_run(harness: Harness, request: RunRequest) -> RunRecord:
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(10):
        return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def find_checkpoint(harness: Harness, count: int) -> str:
    """Return the newest checkpoint with `count` messages."""
    history = await harness.threads.history("t", LOCAL_USER, 50)
    found = next(state for state in history if len(orjson.loads(state.values)["messages"]) == count)
    assert found.checkpoint_id is not None
    return found.checkpoint_id


async def test_a_branch_is_resumed_after_a_crash(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("One.", "Two.", Stall(Answer("Half of th")))
    async with harness_saying(model) as harness:
        await finish_run(harness, build_request("1"))
        await finish_run(harness, build_request("2"))
        at = await find_checkpoint(harness, 2)
        run = await harness.runs.create_or_reject(build_request("3", checkpoint_id=at), LOCAL_USER)
        async with asyncio.timeout(10):
            async for group in harness.runs.listen(run):
                if any(event.event == "messages" for event in group):
                    break
    async with harness_saying(ScriptedModel.saying("Three.")) as harness, asyncio.timeout(10):
        ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
        assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 2)
        assert await read_contents(harness) == await replay_contents(harness) == ["1", "One.", "3", "Three."]


async def test_a_rolled_back_branch_leaves_the_thread_unchanged(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("One.", "Two.", Stall(Answer("Half of th")))
    async with harness_saying(model) as harness, asyncio.timeout(20):
        await finish_run(harness, build_request("1"))
        await finish_run(harness, build_request("2"))
        at = await find_checkpoint(harness, 2)
        run = await harness.runs.create_or_reject(build_request("3", checkpoint_id=at), LOCAL_USER)
        async for group in harness.runs.listen(run):
            if any(event.event == "messages" for event in group):
                break
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert await read_contents(harness) == await replay_contents(harness) == ["1", "One.", "2", "Two."]


@pytest.mark.parametrize("steps", ["*", ["model"]])
async def test_a_run_interrupted_before_a_node_is_resumed(harness_saying: OpenHarness, steps: Any) -> None:
    async with harness_saying(ScriptedModel.saying("One.")) as harness:
        stopped = await finish_run(harness, build_request("1", interrupt_before=steps))
        assert stopped.status is RunStatus.INTERRUPTED
        assert await harness.threads.has_next_step("t", LOCAL_USER, None)
        assert (await finish_run(harness, RunRequest("t", goes_on=True))).status is RunStatus.SUCCESS
        assert await read_contents(harness) == await replay_contents(harness) == ["1", "One."]
        assert not await harness.threads.has_next_step("t", LOCAL_USER, None)


async def test_a_thread_with_an_active_run_cannot_be_changed_or_copied(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Wait")))) as harness, asyncio.timeout(10):
        run = await harness.runs.create_or_reject(build_request("1"), LOCAL_USER)
        for attempt in (harness.threads.update_state("t", LOCAL_USER, {}), harness.threads.copy("t", LOCAL_USER)):
            with pytest.raises(Exception, match="busy"):
                await attempt
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        assert len(await harness.threads.search(LOCAL_USER, 10, 0)) == 1
