"""Scheduling and concurrency limits, with real runs and with the scheduler alone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.config.sections.base import Settings
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.subagents.executor import ConcurrencyLimits, FairScheduler
from deerflow.testing import ScriptedModel, calling, in_parallel
from tests.subagents.support import (
    build_request,
    call_task,
    count_tool_results,
    create_agents_model,
    finish_run,
    get_prompt,
    open_config,
    start_run,
    track_concurrency,
)
from tests.support import said

AT_ONCE, PER_RUN = 3, 4


def start_four_tasks(messages: Sequence[BaseMessage]) -> Any:
    """Play a lead agent that starts four tasks, and subagents that complete them."""
    first = said(messages)[0]
    if "<subagent_system>" not in messages[0].text:
        return f"Did {first}."
    if any(isinstance(message, ToolMessage) for message in messages):
        return "All done."
    return in_parallel(*(call_task(f"{first} {number}") for number in range(PER_RUN)))


async def start_run_as(harness: Harness, thread: str, who: Principal) -> RunRecord:
    spec = AgentSpec(subagent_enabled=True, max_concurrent_subagents=PER_RUN)
    request = RunRequest(thread, [{"type": "human", "content": thread}], spec)
    return await harness.runs.create_or_reject(request, who)


async def wait_until_queued(harness: Harness, run: RunRecord, count: int) -> None:
    """Wait until `count` tasks of a run are queued."""
    found = 0
    async for group in harness.runs.listen(run):
        found += sum(b'"task_queued"' in event.data for event in group)
        if found >= count:
            return


async def read_end_events(harness: Harness, run: RunRecord) -> list[str]:
    events = [
        orjson.loads(event.data) async for group in harness.runs.listen(run) for event in group if is_custom(event)
    ]
    ends = ("task_completed", "task_failed", "task_timed_out", "task_cancelled")
    return [event["type"] for event in events if event["type"] in ends]


def is_custom(event: Any) -> bool:
    return bool(event.event == "custom")


async def test_runs_three_of_twelve_tasks_at_once_alternating_between_users(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model, probe = track_concurrency(ScriptedModel.saying(*[start_four_tasks] * 30), gate=gate)
    alice, bob = Principal("alice"), Principal("bob")
    async with (
        open_harness(open_config(tmp_path, subagents={"max_concurrent": AT_ONCE}), model) as harness,
        asyncio.timeout(30),
    ):
        first = await start_run_as(harness, "alice-1", alice)
        await wait_until_queued(harness, first, 1)
        second = await start_run_as(harness, "alice-2", alice)
        await wait_until_queued(harness, second, PER_RUN)
        third = await start_run_as(harness, "bob", bob)
        await wait_until_queued(harness, third, PER_RUN)
        gate.set()
        ends = [await read_end_events(harness, run) for run in (first, second, third)]
        done = [
            await harness.runs.join(run.thread_id, run.run_id, who)
            for run, who in ((first, alice), (second, alice), (third, bob))
        ]
    assert ends == [["task_completed"] * PER_RUN] * 3
    assert all(run.status is RunStatus.SUCCESS for run in done)
    assert probe.max_active == AT_ONCE and len(set(probe.started)) == 3 * PER_RUN
    # Bob came last, behind five tasks of Alice: from then on the users alternate.
    turns = [order.split()[0].partition("-")[0] for order in probe.started[AT_ONCE:]]
    assert turns == [*["alice", "bob"] * PER_RUN, "alice"]


@pytest.mark.slow
async def test_queue_time_does_not_count_towards_the_task_timeout(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        if get_prompt(messages) != "slow":
            return f"Was {get_prompt(messages)}."
        return "Was slow." if count_tool_results(messages) else calling("bash", description="wait", command="sleep 4.5")

    limits = {"max_concurrent": 1, "agents": {"general-purpose": {"timeout_seconds": 4}}}
    # Subagents that are already built are queued in the order of their calls.
    ready, both = (
        in_parallel(call_task(first, "bash"), call_task(second)) for first, second in (("a", "b"), ("slow", "quick"))
    )
    model = create_agents_model([ready, both, "Both."], work)
    async with open_harness(open_config(tmp_path, subagents=limits), model) as harness:
        _, events = await finish_run(harness, await start_run(harness, build_request("go")))
    assert "task_queued" in [event["type"] for event in events]
    assert [event["result"] for event in events if event["type"] == "task_completed"][2:] == ["Was slow.", "Was quick."]


@pytest.mark.parametrize("limits", [{"max_concurrent": 1}, {"max_concurrent_per_user": 1}])
async def test_enforces_the_limits_per_server_and_per_user(tmp_path: Path, limits: dict[str, int]) -> None:
    orders = [in_parallel(call_task("one"), call_task("two"), call_task("three")), "Done."]
    model, probe = track_concurrency(create_agents_model(orders, lambda messages: f"Did {get_prompt(messages)}."))
    async with open_harness(open_config(tmp_path, subagents=limits), model) as harness:
        _, events = await finish_run(harness, await start_run(harness, build_request("go")))
    assert probe.max_active == 1 and sorted(probe.started) == ["one", "three", "two"]
    assert [event["type"] for event in events].count("task_queued") >= 1


async def test_cancelling_a_run_cancels_queued_tasks_and_frees_all_slots(tmp_path: Path) -> None:
    items = [str(number) for number in range(16)]
    many = calling("task_batch", description="many", prompt="{item}", subagent_type="bash", items=items, concurrency=16)
    gate = asyncio.Event()
    orders = [
        in_parallel(call_task("first"), many, call_task("second"), call_task("third")),
        call_task("later"),
        "Later.",
    ]
    model, probe = track_concurrency(
        create_agents_model(orders, lambda messages: f"Did {get_prompt(messages)}."), gate=gate
    )
    async with (
        open_harness(open_config(tmp_path, subagents={"max_concurrent": 2}), model) as harness,
        asyncio.timeout(30),
    ):
        run = await start_run(harness, build_request("go"))
        await wait_until_queued(harness, run, 1)
        await probe.wait_for_active(2)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        stopped, events = await finish_run(harness, run)
        gate.set()
        again, later = await finish_run(harness, await start_run(harness, build_request("and now?")))
    ends = {event["task_id"]: event["type"] for event in events}
    assert stopped.status is RunStatus.INTERRUPTED and len(probe.started) == 2 + 1
    assert len(ends) == 3 and set(ends.values()) == {"task_cancelled"}
    assert again.status is RunStatus.SUCCESS and later[-1]["type"] == "task_completed"


class SchedulerBench:
    """Tasks that hold a slot until they are released."""

    def __init__(self, total: int, per_user: int) -> None:
        self.scheduler = FairScheduler(Settings(lambda: ConcurrencyLimits(total, per_user)))
        self.order: list[str] = []
        self.working: list[str] = []
        self.queued: dict[str, int] = {}
        self.ends: dict[str, asyncio.Event] = {}

    def enter(self, name: str) -> "asyncio.Task[None]":
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._work(name))

    async def _work(self, name: str) -> None:
        async with self.scheduler.slot(name[0], lambda ahead: self.queued.update({name: ahead})):
            self.order.append(name)
            self.working.append(name)
            try:
                await self.ends[name].wait()
            finally:
                self.working.remove(name)


async def yield_to_loop() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def end_all(bench: SchedulerBench, tasks: list["asyncio.Task[None]"]) -> int:
    """End the tasks one by one and return the maximum concurrency."""
    max_active = 0
    while not all(task.done() for task in tasks):
        await yield_to_loop()
        max_active = max(max_active, len(bench.working))
        if bench.working:
            bench.ends[bench.working[0]].set()
    return max_active


async def test_scheduler_serves_users_round_robin() -> None:
    bench = SchedulerBench(total=1, per_user=1)
    tasks = [bench.enter(name) for name in ("a1", "a2", "a3", "a4", "b1", "b2")]
    await yield_to_loop()
    async with asyncio.timeout(5):
        await end_all(bench, tasks)
    assert bench.order == ["a1", "a2", "b1", "a3", "b2", "a4"]
    assert bench.queued["a2"] == 0 and bench.queued["b1"] == 3


async def test_scheduler_limits_the_slots_of_one_user() -> None:
    bench = SchedulerBench(total=3, per_user=2)
    tasks = [bench.enter(name) for name in ("a1", "a2", "a3", "b1")]
    await yield_to_loop()
    assert bench.working == ["a1", "a2", "b1"]
    async with asyncio.timeout(5):
        await end_all(bench, tasks)


async def test_cancelled_waiters_do_not_hold_or_leak_slots() -> None:
    bench = SchedulerBench(total=1, per_user=1)
    tasks = [bench.enter(name) for name in ("a1", "a2", "b1", "b2")]
    await yield_to_loop()
    tasks[2].cancel()
    tasks[1].cancel()
    await yield_to_loop()
    # Admitted and cancelled in the same moment: the slot goes to the next task.
    bench.ends["a1"].set()
    tasks[0].cancel()
    async with asyncio.timeout(5):
        await end_all(bench, tasks)
    assert bench.order == ["a1", "b2"]


@given(
    users=st.lists(st.sampled_from("abc"), max_size=12),
    total=st.integers(1, 4),
    per_user=st.integers(1, 4),
    cancelled=st.sets(st.integers(0, 11), max_size=4),
)
def test_scheduler_runs_every_task_once_within_the_limit(
    users: list[str], total: int, per_user: int, cancelled: set[int]
) -> None:
    async def scene() -> None:
        bench = SchedulerBench(total, per_user)
        names = [f"{user}{number}" for number, user in enumerate(users)]
        tasks = [bench.enter(name) for name in names]
        await yield_to_loop()
        gone = {names[index] for index in cancelled if index < len(names) and names[index] not in bench.order}
        for name in gone:
            tasks[names.index(name)].cancel()
        async with asyncio.timeout(5):
            max_active = await end_all(bench, tasks)
        assert max_active <= total
        assert sorted(bench.order) == sorted(set(names) - gone)

    asyncio.run(scene())
