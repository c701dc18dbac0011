"""Tests of the quota of a person for a day: parallel runs and processes cannot exceed it."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.budget.account import Amount
from deerflow.budget.daily import DailyBudgets, PersonalBudget
from deerflow.config.sections.models import PricingConfig
from deerflow.domain.errors import QuotaExceeded
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.domain.usage import ModelCallRequest, ModelCallUsage, PromptSize, QuotaSpent, SpendingLimit, TokenCounts
from deerflow.harness import Harness, open_harness
from deerflow.models.usage import UNIT
from deerflow.testing import ScriptedServer, Stall
from tests.budget.support import MISREPORTS, GreedyEndpoint, finish_run, list_files, open_budget_config

RUNS, LIMIT = 20, 300_000
PRICE = PricingConfig(input=Decimal(3), output=Decimal(15))
CALLS = st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 9000), st.booleans()), max_size=30)
QUOTA = {"users": {"quotas": {"tokens_per_day": LIMIT}}}


class MemoryLedger:
    """Ledger of several processes that is kept in memory."""

    def __init__(self) -> None:
        self.total = Amount()
        self.days: set[date] = set()
        self.has_begun = asyncio.Event()

    async def add(
        self, owner: str, day: date, released: Amount, wanted: Amount, limit: SpendingLimit
    ) -> tuple[bool, Amount]:
        self.has_begun.set()
        await asyncio.sleep(0)  # as a database, it does not answer at once
        self.days.add(day)
        self.total = Amount(self.total.tokens - released.tokens, self.total.cost - released.cost)
        whole, most = self.total + wanted, Amount.from_limit(limit)
        is_over = (limit.max_tokens is not None and whole.tokens > most.tokens) or (
            limit.max_cost is not None and whole.cost > most.cost
        )
        if not is_over:
            self.total = whole
        return not is_over, self.total


def open_budgets(ledger: MemoryLedger, limit: SpendingLimit) -> DailyBudgets:
    async def find_limit(owner: str) -> SpendingLimit:
        return limit

    return DailyBudgets(ledger, find_limit, lambda owner: {"m": PRICE})


async def make_call(budget: PersonalBudget, prompt: int, output: int, is_answered: bool) -> Amount:
    """Make a call and return the amount it used."""
    try:
        grant = await budget.reserve(ModelCallRequest("lead_agent", "m", PromptSize(0, prompt), output, 1))
    except QuotaSpent:
        return Amount()
    await asyncio.sleep(0)
    said = grant.output_tokens // 2
    budget.settle(grant, ModelCallUsage(TokenCounts(1, 0, prompt // 4, output_tokens=said)) if is_answered else None)
    read, said = (prompt // 4, said) if is_answered else (grant.prompt_tokens, grant.output_tokens)
    return Amount(read + said, (read * 3 + said * 15) * UNIT // 10**6)


@given(tokens=st.integers(0, 60_000), cents=st.integers(0, 60), first=CALLS, second=CALLS)
async def test_parallel_calls_of_several_processes_stay_within_the_quota(
    tokens: int, cents: int, first: list[tuple[int, int, bool]], second: list[tuple[int, int, bool]]
) -> None:
    ledger, limit = MemoryLedger(), SpendingLimit(tokens, Decimal(cents) / 100)
    processes = [open_budgets(ledger, limit) for _ in range(2)]
    calls = [
        make_call(PersonalBudget(budgets, "ann", None), *call)
        for budgets, calls in zip(processes, (first, second), strict=True)
        for call in calls
    ]
    used = sum(await asyncio.gather(*calls), Amount())
    assert used.tokens <= tokens and used.cost <= cents * UNIT // 100
    for budgets in processes:
        await budgets.aclose()
    assert ledger.total.tokens == used.tokens, "nothing stays reserved"


async def test_a_call_that_is_cancelled_while_it_is_reserved_costs_nothing() -> None:
    ledger = MemoryLedger()
    budgets = open_budgets(ledger, SpendingLimit(100_000))
    call = asyncio.create_task(make_call(PersonalBudget(budgets, "ann", None), 4000, 4000, True))
    await ledger.has_begun.wait()
    call.cancel()
    await asyncio.wait({call})
    await budgets.aclose()
    assert ledger.total == Amount()


async def test_the_quota_begins_anew_each_day() -> None:
    ledger, days = MemoryLedger(), [datetime(2026, 3, 1, 23, 59, tzinfo=UTC)]
    budgets = open_budgets(ledger, SpendingLimit(10_000))
    budgets.now = lambda: days[-1]
    budget = PersonalBudget(budgets, "ann", None)
    assert (await make_call(budget, 4000, 6000, False)).tokens > 0
    days.append(days[0] + timedelta(minutes=2))
    await make_call(budget, 400, 600, True)
    assert ledger.days == {date(2026, 3, 1), date(2026, 3, 2)}


@pytest.mark.parametrize("misreport", ["the truth", "nothing"])
async def test_twenty_parallel_runs_of_a_person_do_not_exceed_the_quota(
    tmp_path: Path, database: dict[str, object], misreport: str
) -> None:
    endpoint = GreedyEndpoint(list_files, MISREPORTS[misreport])
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {}, QUOTA | database)) as harness,
    ):
        done = await asyncio.gather(*(finish_run(harness, thread=f"t{number}") for number in range(RUNS)))
        usage = await harness.resources.quotas.get_usage(LOCAL_USER)
    assert {run.status for run, _, _ in done} == {RunStatus.SUCCESS}
    assert all(answer.startswith(("word ", "I stopped here because your quota")) for _, answer, _ in done)
    assert endpoint.taken["calls"] > 5
    assert endpoint.taken["tokens"] <= usage.tokens <= LIMIT


async def test_processes_that_share_postgresql_do_not_exceed_the_quota(tmp_path: Path, postgres_url: str) -> None:
    endpoint = GreedyEndpoint(list_files)
    settings = QUOTA | {"database": {"url": postgres_url}}
    async with ScriptedServer([endpoint.answer], endless=True) as server, AsyncExitStack() as stack:
        harnesses: list[Harness] = []
        for number in range(3):
            folder = tmp_path / str(number)
            folder.mkdir()
            source = open_budget_config(folder, server, {}, settings)
            harnesses.append(await stack.enter_async_context(open_harness(source)))
        runs = [
            finish_run(harness, thread=f"t{place}-{number}")
            for place, harness in enumerate(harnesses)
            for number in range(7)
        ]
        done = await asyncio.gather(*runs)
        usage = await harnesses[0].resources.quotas.get_usage(LOCAL_USER)
    assert {run.status for run, _, _ in done} == {RunStatus.SUCCESS}
    assert endpoint.taken["tokens"] <= usage.tokens <= LIMIT


async def test_money_of_a_day_is_limited_too(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files)
    quota = {"users": {"quotas": {"cost_per_day": 0.5}}}
    prices = {"input": 1, "output": 2}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {}, quota, pricing=prices)) as harness,
    ):
        await asyncio.gather(*(finish_run(harness, thread=f"t{number}") for number in range(RUNS)))
        spent = await harness.resources.usage.get_stats(LOCAL_USER)
    assert spent.totals.cost is not None and Decimal("0.1") < spent.totals.cost.amount <= Decimal("0.5")


async def test_a_run_is_refused_when_the_quota_is_used_up(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files, MISREPORTS["too much"])
    quota = {"users": {"quotas": {"tokens_per_day": 50_000}}}
    async with (
        ScriptedServer([endpoint.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {}, quota)) as harness,
    ):
        quotas = harness.resources.quotas
        for number in range(20):
            await finish_run(harness, thread=f"t{number}")
            if (await quotas.get_usage(LOCAL_USER)).tokens >= 50_000:
                break
        left = 50_000 - (await quotas.get_usage(LOCAL_USER)).tokens
        ledger = harness.resources.daily_budgets.ledger
        today = datetime.now(UTC).date()
        await ledger.add("local", today, Amount(), Amount(max(0, left)), SpendingLimit(50_000))
        with pytest.raises(QuotaExceeded) as refused:
            await harness.runs.create_or_reject(RunRequest("more", [{"type": "human", "content": "Hi"}]), LOCAL_USER)
        assert 0 < refused.value.retry_after_s <= 86_400


async def test_a_reservation_of_a_process_that_died_counts_as_spent(tmp_path: Path) -> None:
    endpoint = GreedyEndpoint(list_files)
    async with ScriptedServer([endpoint.answer], endless=True) as server:
        source = open_budget_config(tmp_path, server, {}, QUOTA)
        async with open_harness(source) as harness:
            ledger, today = harness.resources.daily_budgets.ledger, datetime.now(UTC).date()
            await ledger.add("local", today, Amount(), Amount(LIMIT - 30_000), SpendingLimit(LIMIT))
        async with open_harness(open_budget_config(tmp_path, server, {}, QUOTA)) as harness:
            await finish_run(harness)
    assert endpoint.taken["tokens"] <= 30_000


async def test_without_a_quota_nothing_is_reserved(tmp_path: Path) -> None:
    async with (
        ScriptedServer([Stall()], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {})) as harness,
    ):
        assert await harness.resources.daily_budgets.wrap("local", None) is None
