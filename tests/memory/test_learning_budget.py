"""What is learned from a run is paid from the run's budget: with all that the run took, never more than that."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, select

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.budget import SpendingLimit
from deerflow.domain.learning import Waiting
from deerflow.domain.memory import MemoryScope
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.domain.usage import MEMORY
from deerflow.harness import Harness, open_harness
from deerflow.persistence.database import open_database
from deerflow.persistence.memory_pending import to_payer
from deerflow.persistence.tables import memory_pending
from deerflow.testing import Answer, CutAfter, ScriptedModel, ScriptedServer, ServerFault, ServerRequest, Stall, Usage
from deerflow.testing.scripted_server import Reply
from tests.agents.greedy import LIES, GreedyEndpoint, look, settings, share
from tests.memory.answers import learned
from tests.memory.test_learning import LATER, TABS

MINE = MemoryScope(LOCAL_USER.user_id)


@dataclass
class GreedyLearner(GreedyEndpoint):
    """One that also names threads and learns from them, badly."""

    named: asyncio.Event = field(default_factory=asyncio.Event)
    mishaps: list[Reply] = field(default_factory=list)

    def answer(self, request: ServerRequest) -> Reply:
        first = str(request.messages[0]["content"])
        reply = super().answer(request)
        if "# Newly said" in str(request.messages[-1]["content"]):
            self.taken["memory"] += 1
            return self.mishaps.pop(0) if self.mishaps else reply
        if request.messages[0]["role"] == "user" and "title" in first:
            self.named.set()
        return reply


def briefly(number: int) -> Answer:
    return look(number) if number < 3 else Answer("Done.")


async def tell(harness: Harness, text: str = "I prefer tabs", limit: SpendingLimit | None = None) -> RunRecord:
    """Say something in a thread and wait until the run has ended."""
    spec = AgentSpec(subagent_enabled=True, max_concurrent_subagents=4)
    request = RunRequest("t", [{"type": "human", "content": text}], spec, recursion_limit=500, budget=limit)
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(30):
        run = await harness.runs.join("t", run.run_id, LOCAL_USER)
    assert run.status is RunStatus.SUCCESS, run.error
    return run


async def waiting(harness: Harness) -> Waiting | None:
    """What is yet to be learned from the thread."""
    found = await harness.resources.memory.waiting(MINE)
    return found[0] if found else None


def scripted(tmp_path: Path, **sections: Any) -> ConfigSource:
    sandbox = {"toolbox": {"enabled": False}}
    overrides = {"memory": LATER, "budget": {"max_tokens": 100_000}, "sandbox": sandbox, **sections}
    return open_source(directory=tmp_path, environment={}, overrides=overrides)


@pytest.mark.parametrize(("lead", "lie"), [*((briefly, lie) for lie in LIES), (look, "the truth"), (share, "nothing")])
async def test_run_title_and_learning_together_take_no_more_than_the_budget(
    tmp_path: Path, lead: Callable[[int], Answer], lie: str
) -> None:
    mishaps: list[Reply] = [ServerFault(500), CutAfter(3, Answer(("word " * 600,))), ServerFault(503)]
    endpoint = GreedyLearner(lead, LIES[lie], mishaps=mishaps)
    more = {"title": {"model_name": "scripted"}, "memory": LATER}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_tokens": 150_000}, more)) as harness,
        asyncio.timeout(30),
    ):
        await tell(harness)
        await endpoint.named.wait()
        while (left := await waiting(harness)) is not None and not left.is_unpaid:
            await harness.lessons.learn_now(MINE)
    assert endpoint.taken["tokens"] <= 150_000
    if lead is briefly:
        assert left is None and endpoint.mishaps == [] and endpoint.taken["memory"] == 5


async def test_what_learning_took_is_on_the_bill_of_the_run_that_paid(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Noted.", learned(TABS))
    async with open_harness(scripted(tmp_path), model) as harness:
        run = await tell(harness)
        before = await harness.resources.usage.of_run(run)
        assert await harness.lessons.learn_now(MINE) == 1
        after = await harness.resources.usage.of_run(run)
        callers = [share.name for share in (await harness.resources.usage.of_thread("t", LOCAL_USER)).by_caller]
    assert MEMORY in callers
    assert before.counts.total_tokens < after.counts.total_tokens <= 100_000
    assert model.requests[1].options["max_tokens"] <= 100_000


async def test_what_a_call_may_take_is_kept_before_the_model_is_asked_and_gone_if_it_breaks_off(tmp_path: Path) -> None:
    source, model = scripted(tmp_path), ScriptedModel.saying("Noted.", Stall(Answer("half")))
    place = source.current.config.database.place(source.current.home)
    async with open_database(place) as database, asyncio.timeout(30):
        async with open_harness(source, model) as harness:
            await tell(harness)
            at_first = await database.read(left_for_learning)
            learning = asyncio.create_task(harness.lessons.learn_now(MINE))
            await model.waiting.wait()
            # Whoever follows a process that is killed now has only the rest.
            meanwhile = await database.read(left_for_learning)
            learning.cancel()
            await asyncio.wait({learning})
            assert await database.read(left_for_learning) == meanwhile
        set_aside = model.requests[1].options["max_tokens"]
        assert 0 < set_aside < at_first - meanwhile < 50_000
        async with open_harness(source, ScriptedModel.saying(learned(TABS))) as harness:
            assert await harness.lessons.learn_now(MINE) == 1
            assert len((await harness.resources.memory.read(MINE)).facts) == 1


async def test_only_what_was_taken_is_gone_when_a_model_makes_no_sense(tmp_path: Path) -> None:
    vague = Answer("Hm.", usage=Usage(1000, 1))
    source, model = scripted(tmp_path), ScriptedModel.saying("Noted.", vague, RuntimeError("no"))
    place = source.current.config.database.place(source.current.home)
    async with open_database(place) as database, open_harness(source, model) as harness:
        await tell(harness)
        at_first = await database.read(left_for_learning)
        assert await harness.lessons.learn_now(MINE) == 1
        left = await database.read(left_for_learning)
    # The first call took what it says; of the second nobody knows.
    assert model.requests[2].options["max_tokens"] == 8192 < at_first - left < 2 * 8192


def left_for_learning(connection: Connection) -> int:
    """What the one thread that waits may take, in tokens."""
    payer = to_payer(connection.execute(select(memory_pending.c.data)).scalar_one())
    assert payer is not None and payer.limit is not None and payer.limit.max_tokens is not None
    return payer.limit.max_tokens


async def test_what_a_run_has_nothing_left_for_is_learned_after_the_next_one(tmp_path: Path) -> None:
    read: list[str] = []

    def learn(messages: Sequence[BaseMessage]) -> str:
        read.append(messages[-1].text)
        return learned(TABS)

    model = ScriptedModel.saying("That was all.", "Tea it is.", learn)
    async with open_harness(scripted(tmp_path), model) as harness:
        await tell(harness, limit=SpendingLimit(max_tokens=2000))
        assert await harness.lessons.learn_now(MINE) == 1
        unpaid = await waiting(harness)
        assert unpaid is not None and unpaid.is_unpaid and len(model.requests) == 1
        assert await harness.lessons.learn_now(MINE) == 0
        await tell(harness, "And I drink tea")
        assert (again := await waiting(harness)) is not None and not again.is_unpaid
        assert await harness.lessons.learn_now(MINE) == 1
        assert await waiting(harness) is None
    assert "I prefer tabs" in read[0] and "And I drink tea" in read[0]


async def test_money_pays_for_learning_like_tokens_do(tmp_path: Path) -> None:
    endpoint = GreedyLearner(briefly)
    price = {"input": 1.0, "output": 10.0}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(settings(tmp_path, server, {"max_cost": 0.3}, {"memory": LATER}, pricing=price)) as harness,
    ):
        run = await tell(harness)
        await harness.lessons.learn_now(MINE)
        spent = await harness.resources.usage.of_run(run)
    assert endpoint.taken["memory"] == 2
    assert spent.cost is not None and 0 < spent.cost.amount <= Decimal("0.3")


async def test_where_nobody_knows_what_the_model_costs_that_learns_it_is_said_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer(["Noted."], models=("scripted", "other"), endless=True) as server:
        priced = server.model_config(pricing={"input": 1.0, "output": 10.0}).model_dump(exclude_none=True)
        more = {"memory": {**LATER, "model_name": "other"}, "models": [priced, {**priced, "name": "other"}]}
        more["models"][1].pop("pricing")
        async with open_harness(settings(tmp_path, server, {"max_cost": 5}, more)) as harness:
            await tell(harness)
            await harness.lessons.learn_now(MINE)
            unpaid = await waiting(harness)
    assert unpaid is not None and unpaid.is_unpaid
    assert "thread t is learned from after its next run: model 'other' has no pricing in USD" in caplog.text
    assert len(server.requests) == 1
