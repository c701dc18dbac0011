"""Recovery of tasks and batches after a crash: results are kept, and side effects are not repeated."""

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
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunStatus
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling, in_parallel
from tests.subagents.support import (
    ROLE,
    SubagentScript,
    build_request,
    call_task,
    count_tool_results,
    create_agents_model,
    finish_run,
    get_prompt,
    open_config,
    read_messages,
    start_run,
    wait_for_log,
)

WRITE = calling("write_file", description="note", path="/mnt/user-data/workspace/note.txt", content="deer")
LOOK = calling("ls", description="look", path="/mnt/user-data/workspace")


async def resume_after_crash(
    tmp_path: Path,
    order: Answer,
    before: SubagentScript,
    after: SubagentScript,
    once: bytes = b"",
    settings: Sequence[dict[str, object]] = ({}, {}),
) -> tuple[list[str], ScriptedModel]:
    """Stop the process during a subagent's work, resume, and return the tool results and the second model.

    `settings` are the subagent settings before and after the restart.
    """
    first = create_agents_model([order], before)
    async with asyncio.timeout(30):
        async with open_harness(open_config(tmp_path, subagents=settings[0]), first) as harness:
            run = await start_run(harness, build_request("go"))
            await first.waiting.wait()
            await wait_for_log(harness, run, once)
        second = create_agents_model(["In the end."], after)
        async with open_harness(open_config(tmp_path, subagents=settings[1]), second) as harness:
            done, _ = await finish_run(harness, run)
            texts = [message["content"] for message in await read_messages(harness) if message["type"] == "tool"]
    assert done.status is RunStatus.SUCCESS
    return texts, second


def list_prompts(model: ScriptedModel) -> list[str]:
    """Return the prompts of the subagents."""
    return [get_prompt(request.messages) for request in model.requests if ROLE in request.messages[0].text]


async def test_read_only_task_is_restarted_after_a_crash(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if count_tool_results(messages) else LOOK

    texts, model = await resume_after_crash(tmp_path, call_task("Look."), work, lambda _: "Nothing there.")
    assert texts == ["Task Succeeded. Result: Nothing there."]
    assert list_prompts(model) == ["Look."]


async def test_task_with_side_effects_is_reported_as_interrupted_after_a_crash(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if count_tool_results(messages) else WRITE

    texts, model = await resume_after_crash(tmp_path, call_task("Write."), work, lambda _: "never asked")
    assert texts[0].startswith("Task interrupted.") and "write_file" in texts[0]
    assert list_prompts(model) == []


async def test_completed_task_is_not_repeated_after_a_crash(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if get_prompt(messages) == "slow" else "Was quick."

    both = in_parallel(call_task("quick"), call_task("slow"))
    texts, model = await resume_after_crash(tmp_path, both, work, lambda _: "Was slow.", once=b'"outcome":"')
    assert texts == ["Task Succeeded. Result: Was quick.", "Task Succeeded. Result: Was slow."]
    assert list_prompts(model) == ["slow"]


@Next(ToolErrorHandlingMiddleware)
class HoldTaskResults(AgentMiddleware[Any, Any, Any]):
    """Middleware that withholds task results until the process ends."""

    def __init__(self) -> None:
        super().__init__()
        self.has_result = asyncio.Event()

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        result = await handler(request)
        if request.tool_call["name"] == "task":
            self.has_result.set()
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
async def test_ended_task_is_not_repeated_if_its_result_was_not_delivered(tmp_path: Path, end: Any, text: str) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return end if count_tool_results(messages) else WRITE

    first, held = create_agents_model([call_task("Write.", max_turns=2)], work), HoldTaskResults()
    async with asyncio.timeout(30):
        async with open_harness(open_config(tmp_path), first, extra_middleware=[held]) as harness:
            run = await start_run(harness, build_request("go"))
            await held.has_result.wait()
            await wait_for_log(harness, run, b'"status":')
        second = create_agents_model(["In the end."], lambda _: "never asked")
        async with open_harness(open_config(tmp_path), second) as harness:
            done, _ = await finish_run(harness, run)
            (result,) = [message for message in await read_messages(harness) if message["type"] == "tool"]
    assert done.status is RunStatus.SUCCESS and list_prompts(second) == []
    assert result["content"] == text
    assert result["additional_kwargs"]["subagent_token_usage"]["input_tokens"] >= 10


async def test_batch_resumes_with_the_remaining_items_after_a_crash(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        order = get_prompt(messages)
        if order == "Do harm.":
            return WRITE if not count_tool_results(messages) else "Harm done, twice as slow."
        return "Did it." if order == "Do one." else Stall()

    about = {"description": "parts", "prompt": "Do {item}.", "subagent_type": "general-purpose"}
    order = calling("task_batch", **about, items=["one", "harm", "more", "last"], concurrency=1)
    texts, model = await resume_after_crash(tmp_path, order, work, lambda _: "Did it now.")
    assert texts[0].startswith("Batch of 4 items: 4 completed.")
    assert list_prompts(model) == ["Do more.", "Do last."]


POET = {"custom_agents": {"poet": {"description": "Verses.", "system_prompt": ROLE}}}


@pytest.mark.parametrize("now", [{}, {"enabled": False}])
async def test_interrupted_task_is_reported_even_if_its_type_was_removed(
    tmp_path: Path, now: dict[str, object]
) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if count_tool_results(messages) else WRITE

    order = in_parallel(call_task("Write.", "poet"))
    texts, model = await resume_after_crash(tmp_path, order, work, lambda _: "never asked", settings=(POET, now))
    assert "how far it came is not known" in texts[0]
    assert list_prompts(model) == []


async def test_completed_task_keeps_its_result_if_subagents_are_disabled(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if get_prompt(messages) == "slow" else "Was quick."

    both = in_parallel(call_task("quick", "poet"), call_task("slow", "poet"))
    off: dict[str, object] = {"enabled": False}
    texts, _ = await resume_after_crash(tmp_path, both, work, lambda _: "", once=b'"outcome":"', settings=(POET, off))
    assert texts[0] == "Task Succeeded. Result: Was quick."
    assert "how far it came is not known" in texts[1]


async def test_cancelled_run_keeps_completed_results_and_marks_the_rest_cancelled(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return Stall() if get_prompt(messages) == "slow" else "Was quick."

    look = calling("bash", description="wait", command="sleep 1000")
    model = create_agents_model([in_parallel(call_task("quick"), call_task("slow"), look), "Next."], work)
    async with asyncio.timeout(30), open_harness(open_config(tmp_path), model) as harness:
        run = await start_run(harness, build_request("go"))
        await model.waiting.wait()
        await wait_for_log(harness, run, b'"outcome":"')
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        stopped, _ = await finish_run(harness, run)
        kept = [message for message in await read_messages(harness) if message["type"] == "tool"]
        await finish_run(harness, await start_run(harness, build_request("and now?")))
    assert stopped.status is RunStatus.INTERRUPTED
    assert kept[0]["content"] == "Task Succeeded. Result: Was quick."
    assert kept[1]["content"].startswith("Task cancelled by user.")
    assert [each["additional_kwargs"].get("subagent_status") for each in kept] == ["completed", "cancelled", None]
    events = [message.text for message in model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert events == [each["content"] for each in kept] and "stopped the run before bash gave a result" in events[2]
