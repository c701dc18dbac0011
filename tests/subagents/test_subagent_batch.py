"""Batch execution, with real runs, a real sandbox and a scripted model."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from deerflow.domain.errors import ModelRejected
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import MemoryScope
from deerflow.domain.runs import RunStatus
from deerflow.domain.subagents import BatchRequest, ItemOutcome, TaskOutcome, TaskRequest
from deerflow.harness import open_harness
from deerflow.subagents.executor import MAX_RESULT_CHARS, BatchExecution, render_prompt
from deerflow.subagents.tools import parse_items
from deerflow.testing import Answer, ScriptedServer, Usage, calling
from tests.budget.support import GreedyEndpoint, open_budget_config
from tests.budget.support import finish_run as finish_within
from tests.memory.support import extract_now
from tests.sandbox.processes import find_survivors, make_marker, wait_for_processes
from tests.subagents.support import (
    build_request,
    call_task_batch,
    create_agents_model,
    finish_run,
    get_prompt,
    open_config,
    read_messages,
    read_results,
    start_run,
    track_concurrency,
    wait_for_log,
)


@dataclass
class MemoryTaskJournal:
    """In-memory task journal."""

    items: dict[int, ItemOutcome] = field(default_factory=dict)
    events: list[Mapping[str, object]] = field(default_factory=list)
    recorded: list[int] = field(default_factory=list)

    def emit(self, event: Mapping[str, object]) -> None:
        self.events.append(event)

    def find_started_tools(self, task_id: str) -> Sequence[str]:
        return ()

    def find_outcome(self, task_id: str) -> TaskOutcome | None:
        return None

    def find_items(self, batch: str) -> Mapping[int, ItemOutcome]:
        return dict(self.items)

    def record_item(self, batch: str, outcome: ItemOutcome) -> None:
        self.items[outcome.index] = outcome
        self.recorded.append(outcome.index)


async def discard(outcomes: Sequence[ItemOutcome]) -> None:
    """Discard the results of a cancelled batch."""


async def test_batch_writes_one_outcome_per_item_to_a_file(tmp_path: Path) -> None:
    tries: Counter[str] = Counter()

    def work(messages: Sequence[BaseMessage]) -> Any:
        order = get_prompt(messages)
        tries[order] += 1
        if order == "Do 2." or (order == "Do 3." and tries[order] == 1):
            return ModelRejected("not that one")
        return f"Did it: {order}"

    model = create_agents_model([call_task_batch(items=["1", "2", "3"]), "All there."], work)
    async with open_harness(open_config(tmp_path), model) as harness:
        run, _ = await finish_run(harness, await start_run(harness, build_request("go")))
        lines = await read_results(harness)
        (events,) = [message for message in await read_messages(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert [line["status"] for line in lines] == ["completed", "failed", "completed"]
    assert [line["attempts"] for line in lines] == [1, 2, 2]
    assert lines[0]["result"] == "Did it: Do 1." and lines[1]["error"] == "not that one"
    assert events["content"].startswith("Batch of 3 items: 2 completed, 1 failed.")
    assert events["additional_kwargs"]["batch_outcomes"] == {"completed": 2, "failed": 1}


async def test_batch_reads_items_from_csv_and_fills_in_their_fields(tmp_path: Path) -> None:
    path = "/mnt/user-data/workspace/people.csv"
    write = calling("write_file", description="list", path=path, content='name,age\nAda,36\n"Bo, jr",4\n')
    model = create_agents_model(
        [write, call_task_batch("How old is {name}? Say {age}. {unknown}", file=path), "Done."],
        lambda messages: f"Asked: {get_prompt(messages)}",
    )
    async with open_harness(open_config(tmp_path), model) as harness:
        await finish_run(harness, await start_run(harness, build_request("go")))
        lines = await read_results(harness)
    assert [line["result"] for line in lines] == [
        "Asked: How old is Ada? Say 36. {unknown}",
        "Asked: How old is Bo, jr? Say 4. {unknown}",
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "either items or file"),
    ({"items": ["a"], "file": "/mnt/user-data/workspace/x.jsonl"}, "either items or file"),
    ({"items": []}, "there are no items"),
    ({"items": ["a"] * 5001}, "more than 5000"),
    ({"file": "/mnt/user-data/workspace/missing.jsonl"}, "missing.jsonl"),
    ({"file": "/mnt/user-data/workspace/bad.jsonl"}, "line 2"),
    ({"file": "/etc/passwd"}, "/etc/passwd"),
]


async def test_refuses_invalid_batches_with_a_reason(tmp_path: Path) -> None:
    write = calling("write_file", description="x", path="/mnt/user-data/workspace/bad.jsonl", content='"a"\n{bad\n')
    orders = [call_task_batch(**arguments) for arguments, _ in REFUSED]
    model = create_agents_model([write, *orders, "I see."], lambda _: "never asked")
    async with open_harness(open_config(tmp_path), model) as harness:
        run, _ = await finish_run(harness, await start_run(harness, build_request("go")))
        events = [message["content"] for message in await read_messages(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert [text for (_, text), said in zip(REFUSED, events[1:], strict=True) if text not in said] == []


async def test_unusual_items_get_one_outcome_each() -> None:
    items = ["", "", "same", "same", {}, "{item}", "x" * 1_000_001, {"n": None}]
    journal, list_prompts = MemoryTaskJournal(), list[str]()

    async def do(order: TaskRequest) -> TaskOutcome:
        list_prompts.append(order.prompt)
        return TaskOutcome("completed", "y" * (MAX_RESULT_CHARS + 1) if order.prompt == "Do same." else "Did it.")

    order = BatchRequest("b", "odd", "Do {item}.", "general-purpose", items, concurrency=3)
    outcomes = await BatchExecution(order, journal, do, "m", discard).execute()
    assert list_prompts.count("Do same.") == 2 and "Do {item}." in list_prompts and len(list_prompts) == len(items) - 1
    assert [each.status for each in outcomes] == ["completed"] * 6 + ["failed", "completed"]
    assert "more than 1,000,000 characters" in (outcomes[6].error or "")
    assert outcomes[2].result.endswith("[… 1 more characters]")


async def test_batch_of_five_thousand_items_limits_events_and_resumes() -> None:
    items = [{"n": number, "text": "z" * 200} for number in range(5000)]
    order = BatchRequest(
        "b", "many", f"{'Read this. ' * 1000} {{text}} {{n}}", "general-purpose", items, concurrency=16
    )
    first, second = MemoryTaskJournal(), MemoryTaskJournal()
    at_work, max_active = set[str](), 0

    async def do(item: TaskRequest) -> TaskOutcome:
        nonlocal max_active
        at_work.add(item.task_id)
        max_active = max(max_active, len(at_work))
        await asyncio.sleep(0)
        at_work.discard(item.task_id)
        return TaskOutcome("completed", item.task_id)

    await BatchExecution(order, first, do, "m", discard).execute()
    second.items = {index: outcome for index, outcome in first.items.items() if index % 5}
    outcomes = await BatchExecution(order, second, do, "m", discard).execute()
    assert max_active == 16 and sorted(first.items) == list(range(5000))
    assert [each.result for each in outcomes] == [f"b/{number}" for number in range(5000)]
    assert sorted(second.recorded) == list(range(0, 5000, 5))  # the others had outcomes
    assert second.events[0]["resumed"] == 4000 and len(first.events) < 100


async def test_batches_with_the_same_call_id_get_separate_files(tmp_path: Path) -> None:
    def again(item: str) -> Answer:
        (call,) = call_task_batch(items=[item]).calls
        return Answer(calls=(replace(call, id="call_0"),))

    model = create_agents_model([again("one"), again("two"), "Both."], lambda messages: get_prompt(messages))
    async with open_harness(open_config(tmp_path), model) as harness:
        await finish_run(harness, await start_run(harness, build_request("go")))
        paths = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)["artifacts"]
    assert len(set(paths)) == 2
    assert all(re.fullmatch(r"/mnt/user-data/outputs/batch-many-parts-[0-9a-f]{8}\.jsonl", path) for path in paths)


async def test_batch_reports_progress_and_respects_the_concurrency_limit(tmp_path: Path) -> None:
    order = call_task_batch(items=[str(each) for each in range(12)], concurrency=16)
    model, probe = track_concurrency(create_agents_model([order, "Done."], lambda _: "Did it."))
    async with open_harness(open_config(tmp_path, subagents={"max_concurrent": 3}), model) as harness:
        run = await start_run(harness, build_request("go"))
        async with asyncio.timeout(30):
            groups = [group async for group in harness.runs.listen(run)]
    events = [orjson.loads(event.data) for group in groups for event in group if event.event == "custom"]
    batches = [event for event in events if event["type"].startswith("batch_")]
    assert batches[0]["type"] == "batch_started" and (batches[0]["done"], batches[0]["total"]) == (0, 12)
    assert batches[-1]["type"] == "batch_completed" and batches[-1]["outcomes"] == {"completed": 12}
    assert probe.max_active == 3 and len(probe.started) == 12


async def test_batch_stays_within_the_budget_and_skips_the_rest(
    tmp_path: Path,
) -> None:
    def lead(number: int) -> Answer:
        return (
            call_task_batch(items=[str(each) for each in range(200)], concurrency=16)
            if number == 1
            else Answer("Enough.")
        )

    endpoint = GreedyEndpoint(lead, lambda truth: Usage(0, 0))
    others = {"title": {"model_name": "scripted"}, "memory": {"debounce_seconds": 3600}}
    more = {"subagents": {"max_concurrent_per_user": 16}, **others}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 900_000}, more)) as harness,
    ):
        run, answer, events = await finish_within(harness)
        assert await extract_now(harness, MemoryScope(LOCAL_USER.user_id)) == 1
        lines = await read_results(harness)
    counts = Counter(line["status"] for line in lines)
    assert run.status is RunStatus.SUCCESS and answer.startswith("word ")
    assert max(each["spent"]["tokens"] for each in events) <= 900_000 and endpoint.taken["tokens"] <= 900_000
    assert counts["completed"] >= 16 and counts["skipped"] > 0 and counts.total() == 200


@pytest.mark.slow
async def test_cancelling_a_run_kills_batch_commands_and_saves_results(tmp_path: Path) -> None:
    seconds = make_marker()
    wait = calling("bash", description="wait", command=f"sleep {seconds}")
    model = create_agents_model(
        [call_task_batch(items=["a", "b", "c"], concurrency=2)],
        lambda messages: wait if get_prompt(messages) != "Do a." else "Did it.",
    )
    async with open_harness(open_config(tmp_path), model) as harness:
        run = await start_run(harness, build_request("go"))
        await wait_for_log(harness, run, b'"batch":')
        await wait_for_processes(seconds)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        left = await find_survivors(seconds)
        done = await harness.runs.join("t", run.run_id, LOCAL_USER)
        events = await harness.timeline.page(run, 0, 1000, ["custom"])
        files = harness.files_of(await harness.threads.get("t", LOCAL_USER))
        (file,) = [each.path for each in await files.list("/mnt/user-data/outputs")]
        lines = [orjson.loads(line) for line in (await files.read(file)).splitlines()]
        results = [message["content"] for message in await read_messages(harness) if message["type"] == "tool"]
    assert [(line["index"], line["item"], line["result"]) for line in lines] == [(0, "a", "Did it.")]
    assert results[0].startswith("Task cancelled by user. The newest batch file")
    assert left == [] and done.status is RunStatus.INTERRUPTED
    assert "batch_cancelled" in [orjson.loads(each.event.data)["type"] for each in events]


@given(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(max_size=20))
def test_item_values_are_not_expanded_as_placeholders(name: str, value: str) -> None:
    assert render_prompt(f"Do {{{name}}} and {{-}}.", {name: value}) == f"Do {value} and {{-}}."
    assert render_prompt("Do it.", value) == f"Do it.\n\n{value}"


def test_placeholders_may_contain_blanks() -> None:
    person = {"First Name": "Ada", "e-mail": "ada@example.org"}
    assert (
        render_prompt("Write to {First Name} <{e-mail}> {as JSON}.", person)
        == "Write to Ada <ada@example.org> {as JSON}."
    )


def test_jsonl_strings_may_contain_unicode_line_separators() -> None:
    content = '"one\u2028and a half"\n"two\x85"\r\n\n{"a": 3}'.encode()
    assert parse_items("a.jsonl", content) == ["one\u2028and a half", "two\x85", {"a": 3}]


@given(st.binary(max_size=200), st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.txt"]))
def test_any_file_is_parsed_or_raises_value_error(content: bytes, name: str) -> None:
    try:
        assert isinstance(parse_items(name, content), list)
    except ValueError as problem:
        assert str(problem)
