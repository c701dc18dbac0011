"""Feedback on runs."""

import asyncio

import pytest

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import RunFeedbackStats, RunRequest
from deerflow.harness import Harness
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness


async def finish_run(harness: Harness) -> str:
    run = await harness.runs.create_or_reject(RunRequest("t", [{"type": "human", "content": "Hi"}]), LOCAL_USER)
    async with asyncio.timeout(10):
        await harness.runs.join("t", run.run_id, LOCAL_USER)
    return run.run_id


async def test_replaces_and_deletes_feedback(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness:
        run_id, say = await finish_run(harness), harness.resources.feedback.put
        first = await say("t", run_id, LOCAL_USER, 1, "Good \0 好")
        again = await say("t", run_id, LOCAL_USER, -1)
        assert (again.feedback_id, again.rating, again.comment) == (first.feedback_id, -1, None)
        await say("t", run_id, LOCAL_USER, 1, message_id="m1")
        assert await harness.resources.feedback.stats("t", run_id, LOCAL_USER) == RunFeedbackStats(2, 1, 1)
        with pytest.raises(Conflict):
            await say("t", run_id, LOCAL_USER, 1, may_exist=False)
        await harness.resources.feedback.delete("t", run_id, LOCAL_USER, first.feedback_id)
        assert [each.message_id for each in await harness.resources.feedback.list("t", run_id, LOCAL_USER)] == ["m1"]
        await harness.resources.feedback.delete("t", run_id, LOCAL_USER)
        with pytest.raises(NotFound):
            await harness.resources.feedback.delete("t", run_id, LOCAL_USER)


async def test_concurrent_feedback_is_stored_once(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness:
        run_id = await finish_run(harness)
        given = await asyncio.gather(*(harness.resources.feedback.put("t", run_id, LOCAL_USER, 1) for _ in range(10)))
        assert len({each.feedback_id for each in given}) == 1


async def test_refuses_feedback_on_foreign_and_deleted_runs(harness_saying: OpenHarness) -> None:
    other = Principal("other")
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness:
        run_id, feedback = await finish_run(harness), harness.resources.feedback
        await feedback.put("t", run_id, LOCAL_USER, 1)
        for attempt in (
            feedback.put("t", run_id, other, 1),
            feedback.list("t", run_id, other),
            feedback.stats("t", run_id, other),
            feedback.delete("t", run_id, other),
            feedback.put("u", run_id, LOCAL_USER, 1),
        ):
            with pytest.raises(NotFound):
                await attempt
        await harness.threads.delete("t", LOCAL_USER)
        with pytest.raises(NotFound):
            await feedback.list("t", run_id, LOCAL_USER)


async def test_lists_the_feedback_of_a_thread(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One.", "Two.")) as harness:
        first, second = await finish_run(harness), await finish_run(harness)
        feedback = harness.resources.feedback
        await feedback.put("t", first, LOCAL_USER, 1, message_id="a")
        await feedback.put("t", second, LOCAL_USER, -1, "Too short.")
        found = await feedback.list_thread("t", LOCAL_USER)
        assert [(each.run_id, each.message_id, each.rating) for each in found] == [(first, "a", 1), (second, None, -1)]
        with pytest.raises(NotFound):
            await feedback.list_thread("t", Principal("other"))
        with pytest.raises(NotFound):
            await feedback.list_thread("none", LOCAL_USER)
