"""The same done for many items: real runs, a real sandbox, a scripted model for all of them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
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
from deerflow.harness import Harness, open_harness
from deerflow.subagents.batch import filled
from deerflow.testing import Answer, ScriptedServer, Usage, calling
from deerflow.tools.builtins.task_batch_tool import parse_items
from tests.agents.greedy import GreedyEndpoint, settings
from tests.agents.test_budget_middleware import finish as finish_within
from tests.sandbox.processes import marked_seconds, survivors, until_alive
from tests.subagents.crowd import crowded
from tests.subagents.test_subagents import asking, config, finish, messages_of, order_in, playing, start


def batch(prompt: str = "Do {item}.", **more: object) -> Answer:
    about = {"description": "many parts", "prompt": prompt, "subagent_type": "general-purpose"}
    return calling("task_batch", **about, **more)


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


async def test_stopping_a_run_ends_the_commands_of_its_batch(tmp_path: Path) -> None:
    seconds = marked_seconds()
    wait = calling("bash", description="wait", command=f"sleep {seconds}")
    model = playing([batch(items=["a", "b", "c"])], lambda _: wait)
    async with open_harness(config(tmp_path), model) as harness:
        run = await start(harness, asking("go"))
        await until_alive(seconds)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        left = await survivors(seconds)
        done = await harness.runs.join("t", run.run_id, LOCAL_USER)
        events = await harness.timeline.page(run, 0, 1000, ["custom"])
    assert left == [] and done.status is RunStatus.INTERRUPTED
    assert orjson.loads(events[-1].event.data)["type"] == "batch_cancelled"


@given(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(max_size=20))
def test_what_an_item_says_is_never_taken_for_a_part_of_the_template(name: str, value: str) -> None:
    assert filled(f"Do {{{name}}} and {{-}}.", {name: value}) == f"Do {value} and {{-}}."
    assert filled("Do it.", value) == f"Do it.\n\n{value}"


@given(st.binary(max_size=200), st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.txt"]))
def test_any_file_is_read_or_refused(content: bytes, name: str) -> None:
    try:
        assert isinstance(parse_items(name, content), list)
    except ValueError as problem:
        assert str(problem)
