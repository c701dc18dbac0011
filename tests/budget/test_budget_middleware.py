"""Tests of run budgets: limits hold whatever models report, and a run always ends with an answer."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.domain.usage import SpendingLimit
from deerflow.harness import open_harness
from deerflow.runtime.runs.job import deserialize_request
from deerflow.runtime.runs.request import serialize_request
from deerflow.testing import (
    Answer,
    CutAfter,
    ScriptedModel,
    ScriptedServer,
    ServerFault,
    Stall,
)
from tests.budget.support import MISREPORTS, GreedyEndpoint, delegate, finish_run, list_files, open_budget_config


@pytest.mark.parametrize(
    ("lead", "misreport"),
    [*((list_files, misreport) for misreport in MISREPORTS), (delegate, "the truth"), (delegate, "nothing")],
)
async def test_run_stays_within_its_budget_and_ends_with_an_answer(
    tmp_path: Path, lead: Callable[[int], Answer], misreport: str
) -> None:
    endpoint = GreedyEndpoint(lead, MISREPORTS[misreport], {2: ServerFault(500), 3: CutAfter(3)})
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 200_000})) as harness,
    ):
        run, answer, entries = await finish_run(harness)
    assert run.status is RunStatus.SUCCESS
    assert endpoint.taken["tokens"] <= 200_000 and endpoint.taken["calls"] > 3
    assert endpoint.final_answers == 1 and answer.startswith("word ")
    assert max(each["spent"]["tokens"] for each in entries) <= 200_000


async def test_unreported_usage_counts_as_the_whole_reservation(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files)
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 200_000}, stream_usage=False)) as harness,
    ):
        run, answer, entries = await finish_run(harness)
    assert run.status is RunStatus.SUCCESS and answer.startswith("word ")
    assert endpoint.taken["tokens"] <= 200_000
    assert all(each["tokens"] > 0 for each in entries)


async def test_run_stays_within_its_cost_limit(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files)
    price = {"input": 1.0, "output": 10.0, "cached_input": 0.1, "reasoning": 12.0}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_cost": 0.2}, pricing=price)) as harness,
    ):
        run, answer, entries = await finish_run(harness)
    assert run.status is RunStatus.SUCCESS and answer.startswith("word ")
    assert endpoint.taken["calls"] > 3
    assert 10**11 < max(each["spent"]["cost"] for each in entries) <= 2 * 10**11


async def test_model_without_pricing_is_not_called_under_a_cost_limit(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files)
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_cost": 0.2})) as harness,
    ):
        run, _, _ = await finish_run(harness)
    assert run.status is RunStatus.ERROR and endpoint.taken["calls"] == 0
    assert run.error is not None and "'scripted' has no pricing in USD" in run.error


async def test_request_can_lower_the_budget_but_not_raise_it(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files)
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 90_000})) as harness,
    ):
        _, _, entries = await finish_run(harness, SpendingLimit(max_tokens=60_000), "less")
        assert endpoint.taken["tokens"] <= max(each["spent"]["tokens"] for each in entries) <= 60_000
        endpoint.taken.clear()
        _, _, entries = await finish_run(harness, SpendingLimit(max_tokens=900_000), "more")
        assert 60_000 < endpoint.taken["tokens"] <= 90_000


async def test_too_small_budget_ends_with_a_fixed_sentence(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files)
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 1000})) as harness,
    ):
        run, answer, entries = await finish_run(harness)
    assert run.status is RunStatus.SUCCESS and endpoint.taken["calls"] == 0
    assert "the budget of this run is used up" in answer


async def test_spending_survives_a_process_restart(tmp_path: Path) -> None:
    off = {"sandbox": {"toolbox": {"enabled": False}}, "budget": {"max_tokens": 200_000}}
    source = open_source(directory=tmp_path, environment={}, overrides=off)
    first = ScriptedModel.saying(list_files(1), Stall(Answer("half")))
    request = RunRequest("t", [{"type": "human", "content": "Go."}])
    async with asyncio.timeout(30):
        async with open_harness(source, first) as harness:
            run = await harness.runs.create_or_reject(request, LOCAL_USER)
            await first.waiting.wait()
            before = await harness.timeline.page(run, 0, 100, ["budget"])
        async with open_harness(source, ScriptedModel.saying("whole")) as harness:
            await harness.runs.join("t", run.run_id, LOCAL_USER)
            after = await harness.timeline.page(run, 0, 100, ["budget"])
    entries = [orjson.loads(event.event.data) for event in after]
    # The interrupted call counts with its whole reservation.
    unfinished = orjson.loads(before[-1].event.data)
    assert unfinished["call"] == 2
    assert entries[-1]["call"] == 3 and entries[-1]["spent"]["tokens"] > unfinished["tokens"]


async def test_summaries_are_charged_to_the_budget(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files)
    more: dict[str, Any] = {
        "title": {"model_name": "scripted"},
        "summarization": {
            "enabled": True,
            "trigger": [{"type": "messages", "value": 20}],
            "keep": {"type": "messages", "value": 4},
        },
    }
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 250_000}, more)) as harness,
    ):
        run, _, entries = await finish_run(harness)
    assert run.status is RunStatus.SUCCESS
    assert "summarization" in {each["caller"] for each in entries}
    assert endpoint.taken["tokens"] <= 250_000


def test_budget_of_a_request_survives_storage() -> None:
    limit = SpendingLimit(5000, Decimal("2.50"))
    stored = serialize_request(RunRequest("t", budget=limit), [])
    assert deserialize_request(orjson.loads(orjson.dumps(stored.content))).budget == limit
    assert deserialize_request({**stored.content, "budget": None}).budget is None
