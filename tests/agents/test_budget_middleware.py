"""What a run may take of its models: never more, whatever they say, and there is always a last answer."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.budget import SpendingLimit
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.runtime.runs.job import read_request
from deerflow.runtime.runs.schemas import to_stored
from deerflow.testing import (
    Answer,
    CutAfter,
    ScriptedModel,
    ScriptedServer,
    ServerFault,
    Stall,
)
from tests.agents.greedy import LIES, GreedyEndpoint, look, settings, share


async def finish(
    harness: Harness, limit: SpendingLimit | None = None, thread: str = "t"
) -> tuple[RunRecord, str, list[dict[str, Any]]]:
    """How a run ended, its last words, and what its log says of the budget."""
    spec = AgentSpec(subagent_enabled=True, max_concurrent_subagents=4)
    request = RunRequest(thread, [{"type": "human", "content": "Go."}], spec, recursion_limit=500, budget=limit)
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(30):
        done = await harness.runs.join(thread, run.run_id, LOCAL_USER)
    page = await harness.timeline.page(run, 0, 10_000, ["budget"])
    state = orjson.loads((await harness.threads.state(thread, LOCAL_USER)).values)
    return done, state["messages"][-1]["content"], [orjson.loads(event.event.data) for event in page]


@pytest.mark.parametrize(("lead", "lie"), [*((look, lie) for lie in LIES), (share, "the truth"), (share, "nothing")])
async def test_no_run_takes_more_than_its_budget_and_every_one_ends_with_an_answer(
    tmp_path: Path, lead: Callable[[int], Answer], lie: str
) -> None:
    endpoint = GreedyEndpoint(lead, LIES[lie], {2: ServerFault(500), 3: CutAfter(3)})
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_tokens": 200_000})) as harness,
    ):
        run, answer, told = await finish(harness)
    assert run.status is RunStatus.SUCCESS
    assert endpoint.taken["tokens"] <= 200_000 and endpoint.taken["calls"] > 3
    assert endpoint.said_last == 1 and answer.startswith("word ")
    assert max(each["spent"]["tokens"] for each in told) <= 200_000


async def test_where_nobody_says_what_was_taken_all_that_was_set_aside_is(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(look)
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_tokens": 200_000}, stream_usage=False)) as harness,
    ):
        run, answer, told = await finish(harness)
    assert run.status is RunStatus.SUCCESS and answer.startswith("word ")
    assert endpoint.taken["tokens"] <= 200_000
    assert all(each["tokens"] > 0 for each in told)


async def test_money_is_kept_to_like_tokens(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(look)
    price = {"input": 1.0, "output": 10.0, "cached_input": 0.1, "reasoning": 12.0}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_cost": 0.2}, pricing=price)) as harness,
    ):
        run, answer, told = await finish(harness)
    assert run.status is RunStatus.SUCCESS and answer.startswith("word ")
    assert endpoint.taken["calls"] > 3
    assert 10**11 < max(each["spent"]["cost"] for each in told) <= 2 * 10**11


async def test_a_model_without_a_price_is_not_asked_where_money_matters(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(look)
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_cost": 0.2})) as harness,
    ):
        run, _, _ = await finish(harness)
    assert run.status is RunStatus.ERROR and endpoint.taken["calls"] == 0
    assert run.error is not None and "'scripted' has no pricing in USD" in run.error


async def test_a_request_can_lower_what_a_run_may_take_and_not_raise_it(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(look)
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_tokens": 90_000})) as harness,
    ):
        _, _, told = await finish(harness, SpendingLimit(max_tokens=60_000), "less")
        assert endpoint.taken["tokens"] <= max(each["spent"]["tokens"] for each in told) <= 60_000
        endpoint.taken.clear()
        _, _, told = await finish(harness, SpendingLimit(max_tokens=900_000), "more")
        assert 60_000 < endpoint.taken["tokens"] <= 90_000


async def test_a_budget_too_small_for_any_answer_ends_in_a_sentence(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(look)
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_tokens": 1000})) as harness,
    ):
        run, answer, told = await finish(harness)
    assert run.status is RunStatus.SUCCESS and endpoint.taken["calls"] == 0
    assert "the budget of this run is used up" in answer


async def test_what_was_spent_before_a_process_died_stays_spent(tmp_path: Path) -> None:
    off = {"sandbox": {"toolbox": {"enabled": False}}, "budget": {"max_tokens": 200_000}}
    source = open_source(directory=tmp_path, environment={}, overrides=off)
    first = ScriptedModel.saying(look(1), Stall(Answer("half")))
    request = RunRequest("t", [{"type": "human", "content": "Go."}])
    async with asyncio.timeout(30):
        async with open_harness(source, first) as harness:
            run = await harness.runs.create_or_reject(request, LOCAL_USER)
            await first.waiting.wait()
            before = await harness.timeline.page(run, 0, 100, ["budget"])
        async with open_harness(source, ScriptedModel.saying("whole")) as harness:
            await harness.runs.join("t", run.run_id, LOCAL_USER)
            after = await harness.timeline.page(run, 0, 100, ["budget"])
    told = [orjson.loads(event.event.data) for event in after]
    # The call that was broken off has taken all that was set aside for it.
    unfinished = orjson.loads(before[-1].event.data)
    assert unfinished["call"] == 2
    assert told[-1]["call"] == 3 and told[-1]["spent"]["tokens"] > unfinished["tokens"]


async def test_titles_and_summaries_are_paid_from_the_budget_too(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(look)
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
        open_harness(settings(tmp_path, server, {"max_tokens": 250_000}, more)) as harness,
    ):
        run, _, told = await finish(harness)
    assert run.status is RunStatus.SUCCESS
    assert "summarization" in {each["caller"] for each in told}
    assert endpoint.taken["tokens"] <= 250_000


def test_what_a_request_may_take_is_the_same_once_it_was_stored() -> None:
    limit = SpendingLimit(5000, Decimal("2.50"))
    stored = to_stored(RunRequest("t", budget=limit), [])
    assert read_request(orjson.loads(orjson.dumps(stored.content))).budget == limit
    assert read_request({**stored.content, "budget": None}).budget is None
