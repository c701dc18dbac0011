"""/threads/{thread_id}/token-usage and /console"""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

from deerflow.domain.runs import RunStatus
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.runtime.pricing import Money, Spent
from deerflow.runtime.usage import ContextUse, RunSpending, Share

router = APIRouter(tags=["usage"])

SPENT: JsonDict = {
    "calls": 3,
    "unmetered_calls": 0,
    "input_tokens": 5200,
    "cached_tokens": 4096,
    "cache_write_tokens": 0,
    "output_tokens": 410,
    "reasoning_tokens": 128,
    "total_tokens": 5610,
    "cost": {"amount": "0.01194", "currency": "USD"},
    "known_costs": [{"amount": "0.01194", "currency": "USD"}],
    "unpriced_tokens": 0,
}


class Cost(BaseModel):
    """An amount of money: a decimal number as text, so that no digit is lost on the way."""

    amount: str
    currency: str

    @classmethod
    def of(cls, money: Money) -> "Cost":
        return cls(amount=f"{money.amount:f}", currency=money.currency)


class Tokens(BaseModel):
    """What model calls took. `cost` is null unless the price of all of it is known in one currency."""

    model_config = ConfigDict(json_schema_extra={"example": SPENT})

    calls: int
    unmetered_calls: int
    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    total_tokens: int
    cost: Cost | None
    known_costs: list[Cost]
    unpriced_tokens: int

    @classmethod
    def of(cls, spent: Spent) -> "Tokens":
        counts = {name: getattr(spent.counts, name) for name in cls.model_fields if hasattr(spent.counts, name)}
        return cls(
            **counts,
            cost=Cost.of(spent.cost) if spent.cost else None,
            known_costs=[Cost.of(money) for money in spent.costs],
            unpriced_tokens=spent.unpriced_tokens,
        )


class NamedTokens(Tokens):
    """What one model or caller took, or one day saw."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "gpt", **SPENT}})

    name: str

    @classmethod
    def of_share(cls, share: Share) -> "NamedTokens":
        return cls(name=share.name, **Tokens.of(share.spent).model_dump())


class ContextUsage(BaseModel):
    """How full the model's window was when it was last asked; the window is null where nobody has said."""

    model: str
    used_tokens: int
    window_tokens: int | None
    fraction: float | None

    @classmethod
    def of(cls, use: ContextUse) -> "ContextUsage":
        part = round(use.used_tokens / use.window_tokens, 4) if use.window_tokens else None
        return cls(model=use.model, used_tokens=use.used_tokens, window_tokens=use.window_tokens, fraction=part)


class ThreadTokens(BaseModel):
    """What a thread has taken."""

    thread_id: str
    totals: Tokens
    by_model: list[NamedTokens]
    by_caller: list[NamedTokens]
    context_usage: ContextUsage | None


class ConsoleStats(BaseModel):
    """What there is, all in all."""

    threads: int
    runs: int
    runs_by_status: dict[RunStatus, int]
    totals: Tokens


class ConsoleRun(BaseModel):
    """A run of any thread, and what it has taken."""

    run_id: str
    thread_id: str
    title: str | None
    assistant_id: str
    status: RunStatus
    error: str | None
    created_at: datetime
    updated_at: datetime
    duration_seconds: float
    usage: Tokens

    @classmethod
    def of(cls, spending: RunSpending) -> "ConsoleRun":
        run = spending.run.run
        shown = {name: getattr(run, name) for name in cls.model_fields if hasattr(run, name)}
        lasted = (run.updated_at - run.created_at).total_seconds()
        return cls(**shown, title=spending.run.title, duration_seconds=lasted, usage=Tokens.of(spending.spent))


class ConsoleRuns(BaseModel):
    """A page of runs; go on with `offset={next_offset}` unless that is null."""

    runs: list[ConsoleRun]
    next_offset: int | None


class ConsoleUsage(BaseModel):
    """What was taken day by day, oldest first; days without any are there as well."""

    timezone: str
    totals: Tokens
    days: list[NamedTokens]
    by_model: list[NamedTokens]
    by_caller: list[NamedTokens]


@router.get("/threads/{thread_id}/token-usage", summary="What a thread has taken")
async def get_thread_usage(thread_id: str, harness: TheHarness, who: Who) -> ThreadTokens:
    """Tokens and costs of a thread: in all, by model and by caller, and how full the model's window is."""
    usage = await harness.resources.usage.of_thread(thread_id, who)
    return ThreadTokens(
        thread_id=thread_id,
        totals=Tokens.of(usage.totals),
        by_model=[NamedTokens.of_share(share) for share in usage.by_model],
        by_caller=[NamedTokens.of_share(share) for share in usage.by_caller],
        context_usage=ContextUsage.of(usage.context) if usage.context else None,
    )


@router.get("/threads/{thread_id}/runs/{run_id}/token-usage", summary="What a run has taken")
async def get_run_usage(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> Tokens:
    """Tokens and costs of a run; they are known when it has ended."""
    return Tokens.of(await harness.resources.usage.of_run(await harness.runs.get(thread_id, run_id, who)))


@router.get("/console/stats", summary="What there is, all in all")
async def get_stats(harness: TheHarness, who: Who) -> ConsoleStats:
    """Threads, runs and what they have taken; what deleted threads took is still in the totals."""
    stats = await harness.resources.usage.stats(who)
    runs = sum(stats.runs.values())
    return ConsoleStats(threads=stats.threads, runs=runs, runs_by_status=stats.runs, totals=Tokens.of(stats.totals))


@router.get("/console/runs", summary="The runs of all threads")
async def list_all_runs(
    harness: TheHarness,
    who: Who,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    status: RunStatus | None = None,
) -> ConsoleRuns:
    """Runs, newest first, each with what it has taken."""
    found = await harness.resources.usage.runs(who, limit + 1, offset, status)
    following = offset + limit if len(found) > limit else None
    return ConsoleRuns(runs=[ConsoleRun.of(each) for each in found[:limit]], next_offset=following)


@router.get("/console/usage", summary="What was taken day by day")
async def get_usage(
    harness: TheHarness,
    who: Who,
    days: Annotated[int, Query(ge=1, le=366)] = 30,
    timezone: Annotated[
        str,
        Query(
            max_length=64, description="Whose days are meant.", openapi_examples={"Berlin": {"value": "Europe/Berlin"}}
        ),
    ] = "UTC",
) -> ConsoleUsage:
    """Tokens and costs of the latest days, as the calendar of a time zone has them, and by model and caller."""
    usage = await harness.resources.usage.daily(who, days, timezone)
    return ConsoleUsage(
        timezone=timezone,
        totals=Tokens.of(usage.totals),
        days=[NamedTokens.of_share(share) for share in usage.by_day],
        by_model=[NamedTokens.of_share(share) for share in usage.by_model],
        by_caller=[NamedTokens.of_share(share) for share in usage.by_caller],
    )
