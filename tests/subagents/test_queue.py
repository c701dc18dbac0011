"""More tasks than may be worked on at once: real runs of two users, a scripted model for all of them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.domain.principal import LOCAL_USER, Principal
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel, calling, in_parallel
from tests.subagents.crowd import crowded
from tests.subagents.test_subagents import asking, config, finish, order_in, playing, start, steps, task
from tests.support import said

AT_ONCE, PER_RUN = 3, 4


def four_each(messages: Sequence[BaseMessage]) -> Any:
    """The lead agent gives four tasks in the name of whoever asks; a subagent says what it did."""
    first = said(messages)[0]
    if "<subagent_system>" not in messages[0].text:
        return f"Did {first}."
    if any(isinstance(message, ToolMessage) for message in messages):
        return "All done."
    return in_parallel(*(task(f"{first} {number}") for number in range(PER_RUN)))


async def ask(harness: Harness, thread: str, who: Principal) -> RunRecord:
    spec = AgentSpec(subagent_enabled=True, max_concurrent_subagents=PER_RUN)
    request = RunRequest(thread, [{"type": "human", "content": thread}], spec)
    return await harness.runs.create_or_reject(request, who)


async def until_queued(harness: Harness, run: RunRecord, count: int) -> None:
    """Wait until so many tasks of a run have been told to wait."""
    found = 0
    async for group in harness.runs.listen(run):
        found += sum(b'"task_queued"' in event.data for event in group)
        if found >= count:
            return


async def ends_of(harness: Harness, run: RunRecord) -> list[str]:
    told = [orjson.loads(event.data) async for group in harness.runs.listen(run) for event in group if is_custom(event)]
    ends = ("task_completed", "task_failed", "task_timed_out", "task_cancelled")
    return [event["type"] for event in told if event["type"] in ends]


def is_custom(event: Any) -> bool:
    return bool(event.event == "custom")


async def test_of_twelve_tasks_three_work_at_once_in_turns_of_their_users_and_none_is_lost(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model, crowd = crowded(ScriptedModel.saying(*[four_each] * 30), gate=gate)
    alice, bob = Principal("alice"), Principal("bob")
    async with (
        open_harness(config(tmp_path, subagents={"max_concurrent": AT_ONCE}), model) as harness,
        asyncio.timeout(30),
    ):
        first = await ask(harness, "alice-1", alice)
        await until_queued(harness, first, 1)
        second = await ask(harness, "alice-2", alice)
        await until_queued(harness, second, PER_RUN)
        third = await ask(harness, "bob", bob)
        await until_queued(harness, third, PER_RUN)
        gate.set()
        ends = [await ends_of(harness, run) for run in (first, second, third)]
        done = [
            await harness.runs.join(run.thread_id, run.run_id, who)
            for run, who in ((first, alice), (second, alice), (third, bob))
        ]
    assert ends == [["task_completed"] * PER_RUN] * 3
    assert all(run.status is RunStatus.SUCCESS for run in done)
    assert crowd.most == AT_ONCE and len(set(crowd.began)) == 3 * PER_RUN
    # Bob came last, behind five of Alice: from then on they take turns.
    turns = [order.split()[0].partition("-")[0] for order in crowd.began[AT_ONCE:]]
    assert turns == [*["alice", "bob"] * PER_RUN, "alice"]


async def test_waiting_for_a_turn_does_not_count_towards_the_time_of_a_task(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        if order_in(messages) != "slow":
            return f"Was {order_in(messages)}."
        return "Was slow." if steps(messages) else calling("bash", description="wait", command="sleep 4.5")

    limits = {"max_concurrent": 1, "agents": {"general-purpose": {"timeout_seconds": 4}}}
    # Those who are built already come in the order in which they are called.
    ready, both = (in_parallel(task(first, "bash"), task(second)) for first, second in (("a", "b"), ("slow", "quick")))
    model = playing([ready, both, "Both."], work)
    async with open_harness(config(tmp_path, subagents=limits), model) as harness:
        _, told = await finish(harness, await start(harness, asking("go")))
    assert "task_queued" in [event["type"] for event in told]
    assert [event["result"] for event in told if event["type"] == "task_completed"][2:] == ["Was slow.", "Was quick."]


@pytest.mark.parametrize("limits", [{"max_concurrent": 1}, {"max_concurrent_per_user": 1}])
async def test_neither_a_server_nor_a_user_has_more_at_work_than_may(tmp_path: Path, limits: dict[str, int]) -> None:
    orders = [in_parallel(task("one"), task("two"), task("three")), "Done."]
    model, crowd = crowded(playing(orders, lambda messages: f"Did {order_in(messages)}."))
    async with open_harness(config(tmp_path, subagents=limits), model) as harness:
        _, told = await finish(harness, await start(harness, asking("go")))
    assert crowd.most == 1 and sorted(crowd.began) == ["one", "three", "two"]
    assert [event["type"] for event in told].count("task_queued") >= 1


async def test_stopping_a_run_ends_its_tasks_in_the_queue_too_and_no_place_is_lost(tmp_path: Path) -> None:
    items = [str(number) for number in range(16)]
    many = calling("task_batch", description="many", prompt="{item}", subagent_type="bash", items=items, concurrency=16)
    gate = asyncio.Event()
    orders = [in_parallel(task("first"), many, task("second"), task("third")), task("later"), "Later."]
    model, crowd = crowded(playing(orders, lambda messages: f"Did {order_in(messages)}."), gate=gate)
    async with open_harness(config(tmp_path, subagents={"max_concurrent": 2}), model) as harness, asyncio.timeout(30):
        run = await start(harness, asking("go"))
        await until_queued(harness, run, 1)
        await crowd.until(2)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        stopped, told = await finish(harness, run)
        gate.set()
        again, later = await finish(harness, await start(harness, asking("and now?")))
    ends = {event["task_id"]: event["type"] for event in told}
    assert stopped.status is RunStatus.INTERRUPTED and len(crowd.began) == 2 + 1
    assert len(ends) == 3 and set(ends.values()) == {"task_cancelled"}
    assert again.status is RunStatus.SUCCESS and later[-1]["type"] == "task_completed"
