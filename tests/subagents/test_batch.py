"""The same done for many items: real runs, a real sandbox, a scripted model for all of them."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from deerflow.domain.errors import ModelRejected
from deerflow.domain.memory import MemoryScope
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunStatus
from deerflow.domain.subagents import BatchOrder, ItemOutcome, TaskOrder, TaskOutcome
from deerflow.harness import Harness, open_harness
from deerflow.subagents.batch import KEPT_CHARS, Batch, filled
from deerflow.testing import Answer, ScriptedServer, Usage, calling
from deerflow.tools.builtins.task_batch_tool import parse_items
from tests.agents.greedy import GreedyEndpoint, settings
from tests.agents.test_budget_middleware import finish as finish_within
from tests.sandbox.processes import marked_seconds, survivors, until_alive
from tests.subagents.crowd import crowded
from tests.subagents.test_interrupted import heard
from tests.subagents.test_subagents import asking, config, finish, messages_of, order_in, playing, start


def batch(prompt: str = "Do {item}.", **more: object) -> Answer:
    about = {"description": "many parts", "prompt": prompt, "subagent_type": "general-purpose"}
    return calling("task_batch", **about, **more)


@dataclass
class Noted:
    """A log that is only remembered."""

    items: dict[int, ItemOutcome] = field(default_factory=dict)
    told: list[Mapping[str, object]] = field(default_factory=list)
    noted: list[int] = field(default_factory=list)

    def tell(self, event: Mapping[str, object]) -> None:
        self.told.append(event)

    def begun_in(self, task_id: str) -> Sequence[str]:
        return ()

    def ended(self, task_id: str) -> TaskOutcome | None:
        return None

    def items_of(self, batch: str) -> Mapping[int, ItemOutcome]:
        return dict(self.items)

    def note_item(self, batch: str, outcome: ItemOutcome) -> None:
        self.items[outcome.index] = outcome
        self.noted.append(outcome.index)


async def forget(outcomes: Sequence[ItemOutcome]) -> None:
    """Keep nothing of a batch that is stopped."""


async def results_of(harness: Harness) -> list[dict[str, Any]]:
    state = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    thread = await harness.threads.get("t", LOCAL_USER)
    content = await harness.files_of(thread).read(state["artifacts"][0])
    return [orjson.loads(line) for line in content.splitlines()]


async def test_every_item_has_one_outcome_and_the_user_gets_them_in_a_file(tmp_path: Path) -> None:
    tries: Counter[str] = Counter()

    def work(messages: Sequence[BaseMessage]) -> Any:
        order = order_in(messages)
        tries[order] += 1
        if order == "Do 2." or (order == "Do 3." and tries[order] == 1):
            return ModelRejected("not that one")
        return f"Did it: {order}"

    model = playing([batch(items=["1", "2", "3"]), "All there."], work)
    async with open_harness(config(tmp_path), model) as harness:
        run, _ = await finish(harness, await start(harness, asking("go")))
        lines = await results_of(harness)
        (told,) = [message for message in await messages_of(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert [line["status"] for line in lines] == ["completed", "failed", "completed"]
    assert [line["attempts"] for line in lines] == [1, 2, 2]
    assert lines[0]["result"] == "Did it: Do 1." and lines[1]["error"] == "not that one"
    assert told["content"].startswith("Batch of 3 items: 2 completed, 1 failed.")
    assert told["additional_kwargs"]["batch_outcomes"] == {"completed": 2, "failed": 1}


async def test_items_come_from_a_file_too_and_their_fields_go_where_they_belong(tmp_path: Path) -> None:
    path = "/mnt/user-data/workspace/people.csv"
    write = calling("write_file", description="list", path=path, content='name,age\nAda,36\n"Bo, jr",4\n')
    model = playing(
        [write, batch("How old is {name}? Say {age}. {unknown}", file=path), "Done."],
        lambda messages: f"Asked: {order_in(messages)}",
    )
    async with open_harness(config(tmp_path), model) as harness:
        await finish(harness, await start(harness, asking("go")))
        lines = await results_of(harness)
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


async def test_what_cannot_be_a_batch_is_refused_and_says_why(tmp_path: Path) -> None:
    write = calling("write_file", description="x", path="/mnt/user-data/workspace/bad.jsonl", content='"a"\n{bad\n')
    orders = [batch(**arguments) for arguments, _ in REFUSED]
    model = playing([write, *orders, "I see."], lambda _: "never asked")
    async with open_harness(config(tmp_path), model) as harness:
        run, _ = await finish(harness, await start(harness, asking("go")))
        told = [message["content"] for message in await messages_of(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert [text for (_, text), said in zip(REFUSED, told[1:], strict=True) if text not in said] == []


async def test_odd_items_have_one_outcome_each_and_none_stands_in_the_way_of_the_rest() -> None:
    items = ["", "", "same", "same", {}, "{item}", "x" * 1_000_001, {"n": None}]
    journal, asked = Noted(), list[str]()

    async def do(order: TaskOrder) -> TaskOutcome:
        asked.append(order.prompt)
        return TaskOutcome("completed", "y" * (KEPT_CHARS + 1) if order.prompt == "Do same." else "Did it.")

    order = BatchOrder("b", "odd", "Do {item}.", "general-purpose", items, concurrency=3)
    outcomes = await Batch(order, journal, do, "m", forget).carry_out()
    assert asked.count("Do same.") == 2 and "Do {item}." in asked and len(asked) == len(items) - 1
    assert [each.status for each in outcomes] == ["completed"] * 6 + ["failed", "completed"]
    assert "more than 1,000,000 characters" in (outcomes[6].error or "")
    assert outcomes[2].result.endswith("[… 1 more characters]")


async def test_five_thousand_items_are_told_at_a_bearable_pace_and_gone_on_with() -> None:
    items = [{"n": number, "text": "z" * 200} for number in range(5000)]
    order = BatchOrder("b", "many", f"{'Read this. ' * 1000} {{text}} {{n}}", "general-purpose", items, concurrency=16)
    first, second = Noted(), Noted()
    at_work, most = set[str](), 0

    async def do(item: TaskOrder) -> TaskOutcome:
        nonlocal most
        at_work.add(item.task_id)
        most = max(most, len(at_work))
        await asyncio.sleep(0)
        at_work.discard(item.task_id)
        return TaskOutcome("completed", item.task_id)

    await Batch(order, first, do, "m", forget).carry_out()
    second.items = {index: outcome for index, outcome in first.items.items() if index % 5}
    outcomes = await Batch(order, second, do, "m", forget).carry_out()
    assert most == 16 and sorted(first.items) == list(range(5000))
    assert [each.result for each in outcomes] == [f"b/{number}" for number in range(5000)]
    assert sorted(second.noted) == list(range(0, 5000, 5))  # the others had their outcomes
    assert second.told[0]["resumed"] == 4000 and len(first.told) < 100


async def test_two_batches_whose_calls_have_one_id_have_a_file_each(tmp_path: Path) -> None:
    def again(item: str) -> Answer:
        (call,) = batch(items=[item]).calls
        return Answer(calls=(replace(call, id="call_0"),))

    model = playing([again("one"), again("two"), "Both."], lambda messages: order_in(messages))
    async with open_harness(config(tmp_path), model) as harness:
        await finish(harness, await start(harness, asking("go")))
        paths = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)["artifacts"]
    assert len(set(paths)) == 2
    assert all(re.fullmatch(r"/mnt/user-data/outputs/batch-many-parts-[0-9a-f]{8}\.jsonl", path) for path in paths)


async def test_readers_see_how_far_a_batch_is_and_its_items_take_their_turns(tmp_path: Path) -> None:
    order = batch(items=[str(each) for each in range(12)], concurrency=16)
    model, crowd = crowded(playing([order, "Done."], lambda _: "Did it."))
    async with open_harness(config(tmp_path, subagents={"max_concurrent": 3}), model) as harness:
        run = await start(harness, asking("go"))
        async with asyncio.timeout(30):
            groups = [group async for group in harness.runs.listen(run)]
    told = [orjson.loads(event.data) for group in groups for event in group if event.event == "custom"]
    batches = [event for event in told if event["type"].startswith("batch_")]
    assert batches[0]["type"] == "batch_started" and (batches[0]["done"], batches[0]["total"]) == (0, 12)
    assert batches[-1]["type"] == "batch_completed" and batches[-1]["outcomes"] == {"completed": 12}
    assert crowd.most == 3 and len(crowd.began) == 12


async def test_a_batch_stays_within_the_budget_with_sixteen_at_once_and_what_it_cannot_pay_is_skipped(
    tmp_path: Path,
) -> None:
    def lead(number: int) -> Answer:
        return batch(items=[str(each) for each in range(200)], concurrency=16) if number == 1 else Answer("Enough.")

    endpoint = GreedyEndpoint(lead, lambda truth: Usage(0, 0))
    others = {"title": {"model_name": "scripted"}, "memory": {"debounce_seconds": 3600}}
    more = {"subagents": {"max_concurrent_per_user": 16}, **others}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_tokens": 900_000}, more)) as harness,
    ):
        run, answer, told = await finish_within(harness)
        assert await harness.lessons.learn_now(MemoryScope(LOCAL_USER.user_id)) == 1
        lines = await results_of(harness)
    counts = Counter(line["status"] for line in lines)
    assert run.status is RunStatus.SUCCESS and answer.startswith("word ")
    assert max(each["spent"]["tokens"] for each in told) <= 900_000 and endpoint.taken["tokens"] <= 900_000
    assert counts["completed"] >= 16 and counts["skipped"] > 0 and counts.total() == 200


async def test_stopping_a_run_ends_the_commands_of_its_batch_and_keeps_what_was_done(tmp_path: Path) -> None:
    seconds = marked_seconds()
    wait = calling("bash", description="wait", command=f"sleep {seconds}")
    model = playing(
        [batch(items=["a", "b", "c"], concurrency=2)],
        lambda messages: wait if order_in(messages) != "Do a." else "Did it.",
    )
    async with open_harness(config(tmp_path), model) as harness:
        run = await start(harness, asking("go"))
        await heard(harness, run, b'"batch":')
        await until_alive(seconds)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        left = await survivors(seconds)
        done = await harness.runs.join("t", run.run_id, LOCAL_USER)
        events = await harness.timeline.page(run, 0, 1000, ["custom"])
        files = harness.files_of(await harness.threads.get("t", LOCAL_USER))
        (file,) = [each.path for each in await files.list("/mnt/user-data/outputs")]
        lines = [orjson.loads(line) for line in (await files.read(file)).splitlines()]
        told = [message["content"] for message in await messages_of(harness) if message["type"] == "tool"]
    assert [(line["index"], line["item"], line["result"]) for line in lines] == [(0, "a", "Did it.")]
    assert told[0].startswith("Task cancelled by user. The newest batch file")
    assert left == [] and done.status is RunStatus.INTERRUPTED
    assert "batch_cancelled" in [orjson.loads(each.event.data)["type"] for each in events]


@given(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(max_size=20))
def test_what_an_item_says_is_never_taken_for_a_part_of_the_template(name: str, value: str) -> None:
    assert filled(f"Do {{{name}}} and {{-}}.", {name: value}) == f"Do {value} and {{-}}."
    assert filled("Do it.", value) == f"Do it.\n\n{value}"


def test_columns_with_blanks_in_their_names_have_their_place_too() -> None:
    person = {"First Name": "Ada", "e-mail": "ada@example.org"}
    assert filled("Write to {First Name} <{e-mail}> {as JSON}.", person) == "Write to Ada <ada@example.org> {as JSON}."


def test_a_text_may_have_what_looks_like_the_end_of_a_line() -> None:
    content = '"one\u2028and a half"\n"two\x85"\r\n\n{"a": 3}'.encode()
    assert parse_items("a.jsonl", content) == ["one\u2028and a half", "two\x85", {"a": 3}]


@given(st.binary(max_size=200), st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.txt"]))
def test_any_file_is_read_or_refused(content: bytes, name: str) -> None:
    try:
        assert isinstance(parse_items(name, content), list)
    except ValueError as problem:
        assert str(problem)
