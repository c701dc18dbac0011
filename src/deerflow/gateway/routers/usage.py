"""Token usage and cost of threads and runs, and statistics for the console."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

from deerflow.domain.runs import RunStatus
from deerflow.domain.usage import BreakCause, PrefixCacheUsage, PrefixSegment, RequestBreak
from deerflow.gateway.dependencies import CurrentUser, HarnessDep, ThreadReader
from deerflow.services.usage import ContextWindowUsage, Money, RunSpending, Spending, UsageShare

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
BREAK: JsonDict = {
    "request": 3,
    "caller": "lead_agent",
    "segment": "message",
    "cause": "compacted",
    "lost_tokens": 310,
    "position": 1,
    "role": "human",
    "name": None,
}
PREFIXES: JsonDict = {
    "requests": 3,
    "prompt_tokens": 4800,
    "prefix_tokens": 4608,
    "prefix_fraction": 0.96,
    "input_tokens": 5200,
    "cached_tokens": 4096,
    "cached_fraction": 0.7877,
    "breaks": [BREAK],
}


class Cost(BaseModel):
    """Amount of money: a decimal number as text, without loss of precision."""

    amount: str
    currency: str

    @classmethod
    def from_domain(cls, money: Money) -> "Cost":
        return cls(amount=f"{money.amount:f}", currency=money.currency)


class Tokens(BaseModel):
    """Usage of model calls. `cost` is null unless the price of all tokens is known in one currency."""

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
    def from_domain(cls, spent: Spending) -> "Tokens":
        counts = {name: getattr(spent.counts, name) for name in cls.model_fields if hasattr(spent.counts, name)}
        return cls(
            **counts,
            cost=Cost.from_domain(spent.cost) if spent.cost else None,
            known_costs=[Cost.from_domain(money) for money in spent.costs],
            unpriced_tokens=spent.unpriced_tokens,
        )


class NamedTokens(Tokens):
    """Usage of a model, a caller or a day."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "gpt", **SPENT}})

    name: str

    @classmethod
    def from_share(cls, share: UsageShare) -> "NamedTokens":
        return cls(name=share.name, **Tokens.from_domain(share.spending).model_dump())


class PrefixCacheBreak(BaseModel):
    """First part of a request that differs from the request before.

    `request` is the number of the request in its run. `position`, `role` and `name` describe a message. `name` is the
    tool of a tool result, or the tools that were added or removed. `lost_tokens` is an estimate of what was sent before
    and is no longer covered. `cause`: `model` another model, `compacted` old messages were summarized or shortened,
    `edited` messages were edited, removed or rolled back, `loaded` the agent loaded tools or a skill, `changed` none of
    these.
    """

    model_config = ConfigDict(json_schema_extra={"example": BREAK})

    request: int
    caller: str
    segment: PrefixSegment
    cause: BreakCause
    lost_tokens: int
    position: int | None
    role: str | None
    name: str | None

    @classmethod
    def from_domain(cls, found: RequestBreak) -> "PrefixCacheBreak":
        return cls(request=found.request, caller=found.caller, **asdict(found.broken))


class PrefixCache(BaseModel):
    """Use of the provider's prefix cache by the requests of a run.

    `prefix_tokens` of the `prompt_tokens` were a prefix of the request before; both are estimates, and leave out
    requests whose request before is not known. `cached_tokens` of the `input_tokens` were cached, as the provider
    reports it. A fraction is null if there is nothing to compare.
    """

    model_config = ConfigDict(json_schema_extra={"example": PREFIXES})

    requests: int
    prompt_tokens: int
    prefix_tokens: int
    prefix_fraction: float | None
    input_tokens: int
    cached_tokens: int
    cached_fraction: float | None
    breaks: list[PrefixCacheBreak]

    @classmethod
    def from_domain(cls, usage: PrefixCacheUsage) -> "PrefixCache":
        sums = {name: getattr(usage, name) for name in cls.model_fields if name != "breaks"}
        return cls(**sums, breaks=[PrefixCacheBreak.from_domain(found) for found in usage.breaks])


class RunTokens(Tokens):
    """Usage of a run, and how much of its requests a prefix cache covers."""

    model_config = ConfigDict(json_schema_extra={"example": {**SPENT, "prefix_cache": PREFIXES}})

    prefix_cache: PrefixCache


class ContextUsage(BaseModel):
    """Usage of the model's context window at its last call; the window is null if unknown."""

    model: str
    used_tokens: int
    window_tokens: int | None
    fraction: float | None

    @classmethod
    def from_domain(cls, use: ContextWindowUsage) -> "ContextUsage":
        part = round(use.used_tokens / use.window_tokens, 4) if use.window_tokens else None
        return cls(model=use.model, used_tokens=use.used_tokens, window_tokens=use.window_tokens, fraction=part)


class ThreadTokens(BaseModel):
    """Usage of a thread."""

    thread_id: str
    totals: Tokens
    by_model: list[NamedTokens]
    by_caller: list[NamedTokens]
    context_usage: ContextUsage | None


class ConsoleStats(BaseModel):
    """Number of threads and runs, and total usage."""

    threads: int
    runs: int
    runs_by_status: dict[RunStatus, int]
    totals: Tokens


class ConsoleRun(BaseModel):
    """Run of any thread with its usage."""

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
    def from_domain(cls, spending: RunSpending) -> "ConsoleRun":
        run = spending.run.run
        shown = {name: getattr(run, name) for name in cls.model_fields if hasattr(run, name)}
        lasted = (run.updated_at - run.created_at).total_seconds()
        return cls(
            **shown, title=spending.run.title, duration_seconds=lasted, usage=Tokens.from_domain(spending.spending)
        )


class ConsoleRuns(BaseModel):
    """Page of runs; continue with `offset={next_offset}` unless it is null."""

    runs: list[ConsoleRun]
    next_offset: int | None


class UsageOfThread(Tokens):
    """Usage of a thread; `thread_id` is null for all deleted threads together."""

    model_config = ConfigDict(json_schema_extra={"example": {"thread_id": "t1", "title": "Herons", **SPENT}})

    thread_id: str | None
    title: str | None


class RunLimits(BaseModel):
    """Spending limit of each run, as configured; null: no limit."""

    max_tokens: int | None
    max_cost: Cost | None


class ConsoleUsage(BaseModel):
    """Usage by day, oldest first; days without usage are included."""

    timezone: str
    totals: Tokens
    days: list[NamedTokens]
    by_model: list[NamedTokens]
    by_caller: list[NamedTokens]
    by_thread: list[UsageOfThread]
    """The 50 threads that used most, most first."""
    run_limits: RunLimits


@router.get("/threads/{thread_id}/token-usage", summary="Get the usage of a thread")
async def get_thread_usage(thread_id: str, harness: HarnessDep, user: ThreadReader) -> ThreadTokens:
    """Get tokens and cost of a thread: in total, by model and by caller, and the usage of the context window."""
    usage = await harness.resources.usage.get_thread_usage(thread_id, user)
    return ThreadTokens(
        thread_id=thread_id,
        totals=Tokens.from_domain(usage.totals),
        by_model=[NamedTokens.from_share(share) for share in usage.by_model],
        by_caller=[NamedTokens.from_share(share) for share in usage.by_caller],
        context_usage=ContextUsage.from_domain(usage.context) if usage.context else None,
    )


@router.get("/threads/{thread_id}/runs/{run_id}/token-usage", summary="Get the usage of a run")
async def get_run_usage(thread_id: str, run_id: str, harness: HarnessDep, user: ThreadReader) -> RunTokens:
    """Get tokens and cost of a run, which are known when it has ended, and its use of the prefix cache so far."""
    run, usage = await harness.runs.get(thread_id, run_id, user), harness.resources.usage
    cache = PrefixCache.from_domain(await usage.get_prefix_cache(run))
    return RunTokens(**Tokens.from_domain(await usage.get_run_spending(run)).model_dump(), prefix_cache=cache)


@router.get("/console/stats", summary="Get statistics")
async def get_stats(harness: HarnessDep, user: CurrentUser) -> ConsoleStats:
    """Get the number of threads and runs, and their total usage; deleted threads are included in the totals."""
    stats = await harness.resources.usage.get_stats(user)
    runs = sum(stats.runs.values())
    return ConsoleStats(
        threads=stats.threads, runs=runs, runs_by_status=stats.runs, totals=Tokens.from_domain(stats.totals)
    )


@router.get("/console/runs", summary="List the runs of all threads")
async def list_all_runs(
    harness: HarnessDep,
    user: CurrentUser,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    status: RunStatus | None = None,
) -> ConsoleRuns:
    """List runs, newest first, each with its usage."""
    found = await harness.resources.usage.list_runs(user, limit + 1, offset, status)
    following = offset + limit if len(found) > limit else None
    return ConsoleRuns(runs=[ConsoleRun.from_domain(each) for each in found[:limit]], next_offset=following)


@router.get("/console/usage", summary="Get the usage by day")
async def get_usage(
    harness: HarnessDep,
    user: CurrentUser,
    days: Annotated[int, Query(ge=1, le=366)] = 30,
    timezone: Annotated[
        str,
        Query(
            max_length=64, description="Time zone of the days.", openapi_examples={"Berlin": {"value": "Europe/Berlin"}}
        ),
    ] = "UTC",
) -> ConsoleUsage:
    """Get tokens and cost of the latest days in a time zone, and by model and caller."""
    usage = await harness.resources.usage.get_daily_usage(user, days, timezone)
    budget = harness.core.source.refresh().config.budget
    max_cost = Cost(amount=f"{budget.max_cost:f}", currency=budget.currency) if budget.max_cost else None
    return ConsoleUsage(
        timezone=timezone,
        totals=Tokens.from_domain(usage.totals),
        days=[NamedTokens.from_share(share) for share in usage.by_day],
        by_model=[NamedTokens.from_share(share) for share in usage.by_model],
        by_caller=[NamedTokens.from_share(share) for share in usage.by_caller],
        by_thread=[
            UsageOfThread(
                thread_id=share.thread_id, title=share.title, **Tokens.from_domain(share.spending).model_dump()
            )
            for share in usage.by_thread
        ],
        run_limits=RunLimits(max_tokens=budget.max_tokens, max_cost=max_cost),
    )
