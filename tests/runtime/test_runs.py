"""Runs from acceptance to their end, on a real database with a scripted model."""

import asyncio

import orjson
import pytest

from deerflow.domain.errors import Conflict, InvalidRequest, ModelRejected, NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.runtime.support import build_request, finish_run, list_events, read_messages
from tests.support import OpenHarness, said


async def wait_for_content(harness: Harness, run: RunRecord, word: str) -> None:
    """Wait until a message with `word` in its content was streamed."""
    async for group in harness.runs.listen(run):
        if any(word in orjson.loads(event.data)[0]["content"] for event in group if event.event == "messages"):
            return


async def test_a_run_streams_its_answer_and_ends_once(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello there, friend.")) as harness:
        run, events = await finish_run(harness, build_request("Hi"))
        names = [name for name, _ in events]
        text = "".join(data[0]["content"] for name, data in events if name == "messages")

        assert names[0] == "metadata" and names[-1] == "end" and names.count("end") == 1
        assert text == "Hello there, friend."
        assert names.count("messages") >= 2  # words that come together are logged together
        assert run.status is RunStatus.SUCCESS
        assert await read_messages(harness) == [("human", "Hi"), ("ai", "Hello there, friend.")]


async def test_a_thread_keeps_its_messages(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("First.", "Second.")
    async with harness_saying(model) as harness:
        await finish_run(harness, build_request("one"))
        await finish_run(harness, build_request("two"))
        assert said(model.requests[1].messages) == ["one", "First.", "two"]
        assert [role for role, _ in await read_messages(harness)] == ["human", "ai", "human", "ai"]


async def test_changes_contain_only_new_messages(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("First.", "Second.")) as harness:
        await finish_run(harness, build_request("one"))
        _, events = await finish_run(harness, build_request("two"))
        changes = [message["content"] for name, data in events if name == "changes" for message in data["messages"]]
        assert changes == ["two", "Second."]


async def test_a_second_run_is_rejected_while_one_is_active(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Thinking about")))
    async with harness_saying(model) as harness, asyncio.timeout(10):
        run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await model.waiting.wait()
        with pytest.raises(Conflict, match="busy with another run"):
            await harness.runs.create_or_reject(build_request("two"), LOCAL_USER)
        model.release()
        assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS


async def test_cancelling_a_run_keeps_its_partial_answer(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Half of the")), "Whole.")
    async with harness_saying(model) as harness, asyncio.timeout(10):
        run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_content(harness, run, "the")
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)

        assert (await harness.runs.get("t", run.run_id, LOCAL_USER)).status is RunStatus.INTERRUPTED
        assert await read_messages(harness) == [("human", "one"), ("ai", "Half of the")]
        events = await list_events(harness, run)
        assert [name for name, _ in events][-2:] == ["changes", "end"]

        _, events = await finish_run(harness, build_request("two"))
        assert said(model.requests[1].messages) == ["one", "Half of the", "two"]


async def test_cancelling_an_ended_run_is_a_conflict(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Done.")) as harness:
        run, _ = await finish_run(harness, build_request("one"))
        with pytest.raises(Conflict, match="already ended with 'success'"):
            await harness.runs.cancel("t", run.run_id, LOCAL_USER)


async def test_a_model_error_ends_the_run_and_the_thread_can_continue(
    harness_saying: OpenHarness,
) -> None:
    model = ScriptedModel.saying(ModelRejected("the endpoint says no"), "Back again.")
    async with harness_saying(model) as harness:
        run, events = await finish_run(harness, build_request("one"))
        assert run.status is RunStatus.ERROR and run.error == "the endpoint says no"
        assert events[-2] == (
            "error",
            {"error": "ModelRejected", "name": "ModelRejected", "message": "the endpoint says no"},
        )
        run, _ = await finish_run(harness, build_request("two"))
        assert run.status is RunStatus.SUCCESS


async def test_an_unexpected_exception_ends_the_run_with_its_class_name(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(ZeroDivisionError("oops"))) as harness:
        run, events = await finish_run(harness, build_request("one"))
        assert run.status is RunStatus.ERROR
        assert events[-2][1] == {"error": "ZeroDivisionError", "name": "ZeroDivisionError", "message": "oops"}


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "input.messages is empty"),
        ([{"content": "x"}], r"input.messages\[0\] is not a message"),
        ([{"type": "human", "content": "x"}, {"type": "robot", "content": "x"}], r"input.messages\[1\]"),
        ([{"type": "ai", "content": "", "tool_calls": {"": None}}], r"input.messages\[0\] is not a message"),
        ([{"type": "ai", "content": "", "tool_calls": ["x"]}], r"input.messages\[0\] is not a message"),
    ],
)
async def test_an_invalid_request_is_rejected_before_anything_is_recorded(
    harness_saying: OpenHarness, messages: list[dict[str, object]], sentence: str
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        with pytest.raises(InvalidRequest, match=sentence):
            await harness.runs.create_or_reject(RunRequest("t", messages), LOCAL_USER)
        with pytest.raises(NotFound):
            await harness.threads.get("t", LOCAL_USER)


async def test_threads_of_other_users_are_not_found(harness_saying: OpenHarness) -> None:
    other = Principal("other")
    async with harness_saying(ScriptedModel.saying("Mine.")) as harness:
        run, _ = await finish_run(harness, build_request("one"))
        for attempt in (
            harness.threads.get("t", other),
            harness.threads.state("t", other),
            harness.threads.delete("t", other),
            harness.threads.create(other, "t", {}, may_exist=True),
            harness.runs.get("t", run.run_id, other),
            harness.runs.cancel("t", run.run_id, other),
            harness.runs.create_or_reject(build_request("two"), other),
        ):
            with pytest.raises(NotFound):
                await attempt
        assert await harness.threads.search(other, 10, 0) == []
        assert await harness.runs.list_by_thread("t", other) == []


async def test_a_thread_gets_its_title_from_its_first_message(harness_saying: OpenHarness) -> None:
    words = "word " * 40
    async with harness_saying(ScriptedModel.saying("a", "b", "c")) as harness:
        await finish_run(harness, build_request("  How are\n you? ", "short"))
        await finish_run(harness, build_request("Later words", "short"))
        await finish_run(harness, build_request(words, "long"))
        titles = {thread.thread_id: thread.title for thread in await harness.threads.search(LOCAL_USER, 10, 0)}
        assert titles["short"] == "How are you?"
        assert titles["long"] is not None and len(titles["long"]) <= 60 and titles["long"].endswith("word…")


async def test_deleting_a_thread_removes_all_its_rows(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Canary 4711.", "Fresh.")) as harness:
        run, _ = await finish_run(harness, build_request("one"))
        await harness.threads.delete("t", LOCAL_USER)
        assert await list_events(harness, run) == []
        with pytest.raises(NotFound):
            await harness.threads.state("t", LOCAL_USER)
        await finish_run(harness, build_request("two"))
        assert await read_messages(harness) == [("human", "two"), ("ai", "Fresh.")]


async def test_a_thread_with_an_active_run_is_not_deleted(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Working")))
    async with harness_saying(model) as harness, asyncio.timeout(10):
        await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await model.waiting.wait()
        with pytest.raises(Conflict, match="busy"):
            await harness.threads.delete("t", LOCAL_USER)
        assert (await harness.threads.get("t", LOCAL_USER)).status == "busy"


async def test_reading_can_start_after_any_event(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One two three four five.")) as harness:
        run, events = await finish_run(harness, build_request("count"))
        for after in range(len(events) + 1):
            assert await list_events(harness, run, after) == events[after:]


async def test_a_second_process_does_not_claim_runs_of_a_live_one(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Half of the")))
    async with harness_saying(model) as first, asyncio.timeout(20):
        run = await first.runs.create_or_reject(build_request("one"), LOCAL_USER)
        await wait_for_content(first, run, "the")
        async with harness_saying(ScriptedModel.saying("Elsewhere.")) as second:
            assert (await second.runs.get("t", run.run_id, LOCAL_USER)).status is RunStatus.RUNNING
            with pytest.raises(Conflict, match="busy"):
                await second.runs.create_or_reject(build_request("two"), LOCAL_USER)
            assert (await finish_run(second, build_request("two", "other")))[0].status is RunStatus.SUCCESS
        model.release()
        assert (await first.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS


@pytest.mark.parametrize("name", ["", "../x", "a/b", "ü", "x" * 65])
def test_user_ids_that_are_not_folder_names_are_rejected(name: str) -> None:
    with pytest.raises(InvalidRequest, match="a user id is 1 to 64 letters"):
        Principal(name)
