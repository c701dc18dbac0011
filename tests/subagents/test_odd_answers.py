"""Subagents whose models say what nobody expects: the others go on, and everything comes to an end."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.types import interrupt

from deerflow.domain.runs import RunStatus
from deerflow.harness import open_harness
from deerflow.testing import Answer, calling, in_parallel
from tests.subagents.test_batch import batch, results_of
from tests.subagents.test_subagents import asking, config, finish, messages_of, order_in, playing, start, task

HALF = "half \ud83d a face"


async def test_half_a_character_ends_neither_a_run_nor_its_batch(tmp_path: Path) -> None:
    orders = in_parallel(task("Draw."), batch(items=["a face", "a tree"]))
    lead = [Answer(HALF, calls=orders.calls), f"In the end: {HALF}"]
    model = playing(lead, lambda messages: "A tree." if "tree" in order_in(messages) else HALF)
    async with open_harness(config(tmp_path), model) as harness:
        run, told = await finish(harness, await start(harness, asking("go")))
        said = [message["content"] for message in await messages_of(harness)]
        lines = await results_of(harness)
    assert run.status is RunStatus.SUCCESS and told[-1]["type"] == "task_completed"
    assert said[1] == "half ? a face" and said[-1] == "In the end: half ? a face"
    assert "Task Succeeded. Result: half ? a face" in said
    assert [(line["status"], line["result"]) for line in lines] == [
        ("completed", "half ? a face"),
        ("completed", "A tree."),
    ]


@tool
async def ask_boss() -> str:
    """Ask somebody."""
    return str(interrupt("May I?"))


async def test_a_tool_that_waits_for_a_person_fails_its_task_and_is_not_taken_for_its_end(tmp_path: Path) -> None:
    entry = {"name": "ask_boss", "group": "x", "use": f"{__name__}:ask_boss"}
    model = playing([task("Ask."), "Nobody there."], lambda _: calling("ask_boss"))
    async with open_harness(config(tmp_path, tools=[entry]), model) as harness:
        run, told = await finish(harness, await start(harness, asking("go")))
        text = next(message["content"] for message in await messages_of(harness) if message["type"] == "tool")
    assert run.status is RunStatus.SUCCESS and told[-1]["type"] == "task_failed"
    assert text.startswith("Task failed. Error: a tool of it waits for the word of a person")


@tool
async def go_astray() -> str:
    """End like something that was cancelled, as libraries do whose own tasks are."""
    raise asyncio.CancelledError("not by us")


async def test_a_crash_of_one_leaves_the_others_and_the_run_alone(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        answers = {"crash": ZeroDivisionError("division by zero"), "stray": calling("go_astray"), "good": "Fine."}
        return answers[order_in(messages)]

    entry = {"name": "go_astray", "group": "x", "use": f"{__name__}:go_astray"}
    model = playing([in_parallel(task("crash"), task("stray"), task("good")), "One of three."], work)
    async with open_harness(config(tmp_path, tools=[entry]), model) as harness:
        run, told = await finish(harness, await start(harness, asking("go")))
        texts = [message["content"] for message in await messages_of(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert texts[0] == "Task failed. Error: division by zero" and texts[2] == "Task Succeeded. Result: Fine."
    assert texts[1].startswith("Task failed. Error: ")
    ends = [event["type"] for event in told if event["type"] in ("task_completed", "task_failed")]
    assert sorted(ends) == ["task_completed", "task_failed", "task_failed"]
