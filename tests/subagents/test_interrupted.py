"""Tasks and batches whose process ends in the middle: nothing is lost, and nothing harmful is done twice."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.agents import Next
from deerflow.agents.middlewares.tool_error_handling_middleware import ToolErrorHandlingMiddleware
from deerflow.domain.errors import ModelRejected
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling, in_parallel
from tests.subagents.test_subagents import (
    ROLE,
    Part,
    asking,
    config,
    finish,
    messages_of,
    order_in,
    playing,
    start,
    steps,
    task,
)

WRITE = calling("write_file", description="note", path="/mnt/user-data/workspace/note.txt", content="deer")
LOOK = calling("ls", description="look", path="/mnt/user-data/workspace")


async def go_on_after(
    tmp_path: Path,
    order: Answer,
    before: Part,
    after: Part,
    once: bytes = b"",
    settings: Sequence[dict[str, object]] = ({}, {}),
) -> tuple[list[str], ScriptedModel]:
    """What the tools of a run said whose process ended while a subagent was at work, and who was asked then.

    `settings` of subagents are those before the end, and those after.
    """
    first = playing([order], before)
    async with asyncio.timeout(30):
        async with open_harness(config(tmp_path, subagents=settings[0]), first) as harness:
            run = await start(harness, asking("go"))
            await first.waiting.wait()
            await heard(harness, run, once)
        second = playing(["In the end."], after)
        async with open_harness(config(tmp_path, subagents=settings[1]), second) as harness:
            done, _ = await finish(harness, run)
            texts = [message["content"] for message in await messages_of(harness) if message["type"] == "tool"]
    assert done.status is RunStatus.SUCCESS
    return texts, second


async def heard(harness: Harness, run: RunRecord, words: bytes) -> None:
    """Wait until the log of a run has these words."""
    async for group in harness.runs.listen(run):
        if any(words in event.data for event in group):
            return


def asked(model: ScriptedModel) -> list[str]:
    """What subagents were given to do."""
    return [order_in(request.messages) for request in model.requests if ROLE in request.messages[0].text]


async def test_a_task_that_had_changed_nothing_is_begun_again(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if steps(messages) else LOOK

    texts, model = await go_on_after(tmp_path, task("Look."), work, lambda _: "Nothing there.")
    assert texts == ["Task Succeeded. Result: Nothing there."]
    assert asked(model) == ["Look."]


async def test_a_task_that_may_have_changed_something_is_said_to_be_interrupted(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if steps(messages) else WRITE

    texts, model = await go_on_after(tmp_path, task("Write."), work, lambda _: "never asked")
    assert texts[0].startswith("Task interrupted.") and "write_file" in texts[0]
    assert asked(model) == []


async def test_a_task_that_was_done_is_not_done_again(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if order_in(messages) == "slow" else "Was quick."

    both = in_parallel(task("quick"), task("slow"))
    texts, model = await go_on_after(tmp_path, both, work, lambda _: "Was slow.", once=b'"outcome":"')
    assert texts == ["Task Succeeded. Result: Was quick.", "Task Succeeded. Result: Was slow."]
    assert asked(model) == ["slow"]


@Next(ToolErrorHandlingMiddleware)
class Held(AgentMiddleware[Any, Any, Any]):
    """Keeps the results of tasks for itself until the process ends."""

    def __init__(self) -> None:
        super().__init__()
        self.has_one = asyncio.Event()

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        result = await handler(request)
        if request.tool_call["name"] == "task":
            self.has_one.set()
            await asyncio.Event().wait()
        return result


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ("Written.", "Task Succeeded. Result: Written."),
        (ModelRejected("closed"), "Task failed. Error: closed"),
        (LOOK, "Task stopped: it has taken all of its 2 turns. What it had by then: (nothing)"),
    ],
)
async def test_a_task_that_had_ended_before_its_result_was_taken_is_not_done_again(
    tmp_path: Path, end: Any, text: str
) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return end if steps(messages) else WRITE

    first, held = playing([task("Write.", max_turns=2)], work), Held()
    async with asyncio.timeout(30):
        async with open_harness(config(tmp_path), first, extra_middleware=[held]) as harness:
            run = await start(harness, asking("go"))
            await held.has_one.wait()
            await heard(harness, run, b'"status":')
        second = playing(["In the end."], lambda _: "never asked")
        async with open_harness(config(tmp_path), second) as harness:
            done, _ = await finish(harness, run)
            (result,) = [message for message in await messages_of(harness) if message["type"] == "tool"]
    assert done.status is RunStatus.SUCCESS and asked(second) == []
    assert result["content"] == text
    assert result["additional_kwargs"]["subagent_token_usage"]["input_tokens"] >= 10


async def test_items_of_a_batch_are_gone_on_with_in_the_same_way(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        order = order_in(messages)
        if order == "Do harm.":
            return WRITE if not steps(messages) else "Harm done, twice as slow."
        return "Did it." if order == "Do one." else Stall()

    about = {"description": "parts", "prompt": "Do {item}.", "subagent_type": "general-purpose"}
    order = calling("task_batch", **about, items=["one", "harm", "more", "last"], concurrency=1)
    texts, model = await go_on_after(tmp_path, order, work, lambda _: "Did it now.")
    assert texts[0].startswith("Batch of 4 items: 4 completed.")
    assert asked(model) == ["Do more.", "Do last."]


POET = {"custom_agents": {"poet": {"description": "Verses.", "system_prompt": ROLE}}}


@pytest.mark.parametrize("now", [{}, {"enabled": False}])
async def test_what_a_task_may_have_changed_is_said_also_when_its_kind_is_gone_by_then(
    tmp_path: Path, now: dict[str, object]
) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if steps(messages) else WRITE

    order = in_parallel(task("Write.", "poet"))
    texts, model = await go_on_after(tmp_path, order, work, lambda _: "never asked", settings=(POET, now))
    assert "how far it came is not known" in texts[0]
    assert asked(model) == []


async def test_a_task_that_was_done_keeps_its_result_when_subagents_are_switched_off_meanwhile(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if order_in(messages) == "slow" else "Was quick."

    both = in_parallel(task("quick", "poet"), task("slow", "poet"))
    off: dict[str, object] = {"enabled": False}
    texts, _ = await go_on_after(tmp_path, both, work, lambda _: "", once=b'"outcome":"', settings=(POET, off))
    assert texts[0] == "Task Succeeded. Result: Was quick."
    assert "how far it came is not known" in texts[1]


async def test_what_was_done_when_a_run_is_stopped_is_kept_and_the_rest_is_said_to_be_cancelled(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if order_in(messages) == "slow" else "Was quick."

    look = calling("bash", description="wait", command="sleep 1000")
    model = playing([in_parallel(task("quick"), task("slow"), look), "Next."], work)
    async with asyncio.timeout(30), open_harness(config(tmp_path), model) as harness:
        run = await start(harness, asking("go"))
        await model.waiting.wait()
        await heard(harness, run, b'"outcome":"')
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        stopped, _ = await finish(harness, run)
        kept = [message for message in await messages_of(harness) if message["type"] == "tool"]
        await finish(harness, await start(harness, asking("and now?")))
    assert stopped.status is RunStatus.INTERRUPTED
    assert kept[0]["content"] == "Task Succeeded. Result: Was quick."
    assert kept[1]["content"].startswith("Task cancelled by user.")
    assert [each["additional_kwargs"]["subagent_status"] for each in kept] == ["completed", "cancelled"]
    told = [message.text for message in model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert told[:2] == [each["content"] for each in kept] and "interrupted before bash gave a result" in told[2]
