"""Extraction is paid from the budget of its run, which is never exceeded."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import ScheduledExtraction
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.domain.usage import MEMORY, SpendingLimit
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine import open_database
from deerflow.testing import Answer, CutAfter, ScriptedModel, ScriptedServer, ServerFault, ServerRequest, Stall, Usage
from deerflow.testing.scripted_server import ServerReply
from tests.budget.support import MISREPORTS, GreedyEndpoint, delegate, list_files, open_budget_config
from tests.memory.support import (
    LOCAL_SCOPE,
    LONG_DEBOUNCE,
    TABS_FACT,
    build_extraction_output,
    extract_now,
    read_remaining_tokens,
)


@dataclass
class GreedyExtractor(GreedyEndpoint):
    """Endpoint that also generates titles and extracts facts, with faults."""

    named: asyncio.Event = field(default_factory=asyncio.Event)
    mishaps: list[ServerReply] = field(default_factory=list)

    def answer(self, request: ServerRequest) -> ServerReply:
        first = str(request.messages[0]["content"])
        reply = super().answer(request)
        if "# Newly said" in str(request.messages[-1]["content"]):
            self.taken["memory"] += 1
            return self.mishaps.pop(0) if self.mishaps else reply
        if request.messages[0]["role"] == "user" and "title" in first:
            self.named.set()
        return reply


def briefly(number: int) -> Answer:
    return list_files(number) if number < 3 else Answer("Done.")


async def finish_run(harness: Harness, text: str = "I prefer tabs", limit: SpendingLimit | None = None) -> RunRecord:
    """Send a message and wait for the end of its run."""
    spec = AgentSpec(subagent_enabled=True, max_concurrent_subagents=4)
    request = RunRequest("t", [{"type": "human", "content": text}], spec, recursion_limit=500, budget=limit)
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(30):
        run = await harness.runs.join("t", run.run_id, LOCAL_USER)
    assert run.status is RunStatus.SUCCESS, run.error
    return run


async def find_pending(harness: Harness) -> ScheduledExtraction | None:
    """Return the pending extraction of the thread."""
    found = await harness.resources.memory.list_pending(LOCAL_SCOPE)
    return found[0] if found else None


def open_memory_config(tmp_path: Path, **sections: Any) -> ConfigSource:
    sandbox = {"toolbox": {"enabled": False}}
    overrides = {"memory": LONG_DEBOUNCE, "budget": {"max_tokens": 100_000}, "sandbox": sandbox, **sections}
    return open_source(directory=tmp_path, environment={}, overrides=overrides)


@pytest.mark.parametrize(
    ("lead", "misreport"),
    [*((briefly, misreport) for misreport in MISREPORTS), (list_files, "the truth"), (delegate, "nothing")],
)
async def test_run_title_and_extraction_share_one_budget(
    tmp_path: Path, lead: Callable[[int], Answer], misreport: str
) -> None:
    mishaps: list[ServerReply] = [ServerFault(500), CutAfter(3, Answer(("word " * 600,))), ServerFault(503)]
    endpoint = GreedyExtractor(lead, MISREPORTS[misreport], mishaps=mishaps)
    more = {"title": {"model_name": "scripted"}, "memory": LONG_DEBOUNCE}
    async with (
        ScriptedServer([endpoint.answer], endless=True, titles=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 150_000}, more)) as harness,
        asyncio.timeout(30),
    ):
        await finish_run(harness)
        await endpoint.named.wait()
        while (left := await find_pending(harness)) is not None and not left.is_unpaid:
            await extract_now(harness, LOCAL_SCOPE)
    assert endpoint.taken["tokens"] <= 150_000
    if lead is briefly:
        assert left is None and endpoint.mishaps == [] and endpoint.taken["memory"] == 5


async def test_charges_an_extraction_to_its_run(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Noted.", build_extraction_output(TABS_FACT))
    async with open_harness(open_memory_config(tmp_path), model) as harness:
        run = await finish_run(harness)
        before = await harness.resources.usage.get_run_spending(run)
        assert await extract_now(harness, LOCAL_SCOPE) == 1
        after = await harness.resources.usage.get_run_spending(run)
        callers = [share.name for share in (await harness.resources.usage.get_thread_usage("t", LOCAL_USER)).by_caller]
    assert MEMORY in callers
    assert before.counts.total_tokens < after.counts.total_tokens <= 100_000
    assert model.requests[1].options["max_tokens"] <= 100_000


async def test_reserves_the_budget_before_the_model_call(tmp_path: Path) -> None:
    source, model = open_memory_config(tmp_path), ScriptedModel.saying("Noted.", Stall(Answer("half")))
    place = source.current.config.database.get_location(source.current.home)
    async with open_database(place) as database, asyncio.timeout(30):
        async with open_harness(source, model) as harness:
            await finish_run(harness)
            at_first = await database.read(read_remaining_tokens)
            learning = asyncio.create_task(extract_now(harness, LOCAL_SCOPE))
            await model.waiting.wait()
            # Whoever follows a process that is killed now has only the rest.
            meanwhile = await database.read(read_remaining_tokens)
            learning.cancel()
            await asyncio.wait({learning})
            assert await database.read(read_remaining_tokens) == meanwhile
        set_aside = model.requests[1].options["max_tokens"]
        assert 0 < set_aside < at_first - meanwhile < 50_000
        async with open_harness(source, ScriptedModel.saying(build_extraction_output(TABS_FACT))) as harness:
            assert await extract_now(harness, LOCAL_SCOPE) == 1
            assert len((await harness.resources.memory.read(LOCAL_SCOPE)).facts) == 1


async def test_charges_only_actual_usage_after_invalid_output(tmp_path: Path) -> None:
    vague = Answer("Hm.", usage=Usage(1000, 1))
    source, model = open_memory_config(tmp_path), ScriptedModel.saying("Noted.", vague, RuntimeError("no"))
    place = source.current.config.database.get_location(source.current.home)
    async with open_database(place) as database, open_harness(source, model) as harness:
        await finish_run(harness)
        at_first = await database.read(read_remaining_tokens)
        assert await extract_now(harness, LOCAL_SCOPE) == 1
        left = await database.read(read_remaining_tokens)
    # The first call took what it says; of the second nobody knows.
    assert model.requests[2].options["max_tokens"] == 8192 < at_first - left < 2 * 8192


async def test_postpones_an_extraction_without_budget_to_the_next_run(tmp_path: Path) -> None:
    read: list[str] = []

    def learn(messages: Sequence[BaseMessage]) -> str:
        read.append(messages[-1].text)
        return build_extraction_output(TABS_FACT)

    model = ScriptedModel.saying("That was all.", "Tea it is.", learn)
    async with open_harness(open_memory_config(tmp_path), model) as harness:
        await finish_run(harness, limit=SpendingLimit(max_tokens=2000))
        assert await extract_now(harness, LOCAL_SCOPE) == 1
        unpaid = await find_pending(harness)
        assert unpaid is not None and unpaid.is_unpaid and len(model.requests) == 1
        assert await extract_now(harness, LOCAL_SCOPE) == 0
        await finish_run(harness, "And I drink tea")
        assert (again := await find_pending(harness)) is not None and not again.is_unpaid
        assert await extract_now(harness, LOCAL_SCOPE) == 1
        assert await find_pending(harness) is None
    assert "I prefer tabs" in read[0] and "And I drink tea" in read[0]


async def test_a_money_budget_pays_for_extractions(tmp_path: Path) -> None:
    endpoint = GreedyExtractor(briefly)
    price = {"input": 1.0, "output": 10.0}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(
            open_budget_config(tmp_path, server, {"max_cost": 0.3}, {"memory": LONG_DEBOUNCE}, pricing=price)
        ) as harness,
    ):
        run = await finish_run(harness)
        await extract_now(harness, LOCAL_SCOPE)
        spent = await harness.resources.usage.get_run_spending(run)
    assert endpoint.taken["memory"] == 2
    assert spent.cost is not None and 0 < spent.cost.amount <= Decimal("0.3")


async def test_postpones_an_extraction_when_the_price_is_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer(["Noted."], models=("scripted", "other"), endless=True) as server:
        priced = server.model_config(pricing={"input": 1.0, "output": 10.0}).model_dump(exclude_none=True)
        more = {"memory": {**LONG_DEBOUNCE, "model_name": "other"}, "models": [priced, {**priced, "name": "other"}]}
        more["models"][1].pop("pricing")
        async with open_harness(open_budget_config(tmp_path, server, {"max_cost": 5}, more)) as harness:
            await finish_run(harness)
            await extract_now(harness, LOCAL_SCOPE)
            unpaid = await find_pending(harness)
    assert unpaid is not None and unpaid.is_unpaid
    assert "memory extraction of thread t postponed to its next run: model 'other' has no pricing in USD" in caplog.text
    assert len(server.requests) == 1
