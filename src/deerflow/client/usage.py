"""Token usage and cost."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.session import HarnessSession, Resource, sync_and_async
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunStatus
from deerflow.domain.usage import PrefixCacheUsage, TokenCounts
from deerflow.services.usage import Money, RunSpending, Spending, UsageShare

RUN_FIELDS = ("run_id", "thread_id", "assistant_id", "status", "error", "created_at", "updated_at")


async def get_token_usage(session: HarnessSession, thread_id: str) -> dict[str, Any]:
    """Return the tokens and cost of a thread, by model and by caller, and the usage of the model's context window.

    Raises:
        NotFound: the thread does not exist.
    """
    usage = await session.harness.resources.usage.get_thread_usage(thread_id, LOCAL_USER)
    context = usage.context
    window = context.window_tokens if context else None
    return {
        "thread_id": thread_id,
        "totals": serialize_spent(usage.totals),
        "by_model": serialize_shares(usage.by_model),
        "by_caller": serialize_shares(usage.by_caller),
        "context_usage": None
        if context is None
        else {
            "model": context.model,
            "used_tokens": context.used_tokens,
            "window_tokens": window,
            "fraction": round(context.used_tokens / window, 4) if window else None,
        },
    }


async def get_run_usage(session: HarnessSession, thread_id: str, run_id: str) -> dict[str, Any]:
    """Return the tokens and cost of a run, which are known when it has ended, and its use of the prefix cache so far.

    Raises:
        NotFound: the run does not exist.
    """
    run, usage = await session.harness.runs.get(thread_id, run_id, LOCAL_USER), session.harness.resources.usage
    cache = serialize_prefix_cache(await usage.get_prefix_cache(run))
    return {**serialize_spent(await usage.get_run_spending(run)), "prefix_cache": cache}


async def get_stats(session: HarnessSession) -> dict[str, Any]:
    """Return the number of threads and runs, and their total usage."""
    stats = await session.harness.resources.usage.get_stats(LOCAL_USER)
    by_status = {status.value: count for status, count in stats.runs.items()}
    runs = sum(by_status.values())
    return {
        "threads": stats.threads,
        "runs": runs,
        "runs_by_status": by_status,
        "totals": serialize_spent(stats.totals),
    }


async def list_all_runs(
    session: HarnessSession, limit: int = 50, offset: int = 0, status: RunStatus | None = None
) -> dict[str, Any]:
    """Return the runs of all threads, newest first, each with its usage."""
    found = await session.harness.resources.usage.list_runs(LOCAL_USER, limit + 1, offset, status)
    following = offset + limit if len(found) > limit else None
    return {"runs": [serialize_run(each) for each in found[:limit]], "next_offset": following}


async def get_usage(session: HarnessSession, days: int = 30, timezone: str = "UTC") -> dict[str, Any]:
    """Return the usage of the latest `days`, by calendar day in a time zone.

    Raises:
        InvalidRequest: the time zone is unknown.
    """
    usage = await session.harness.resources.usage.get_daily_usage(LOCAL_USER, days, timezone)
    budget = session.harness.core.source.refresh().config.budget
    return {
        "timezone": timezone,
        "totals": serialize_spent(usage.totals),
        "days": serialize_shares(usage.by_day),
        "by_model": serialize_shares(usage.by_model),
        "by_caller": serialize_shares(usage.by_caller),
        "by_thread": [
            {"thread_id": each.thread_id, "title": each.title, **serialize_spent(each.spending)}
            for each in usage.by_thread
        ],
        "run_limits": {
            "max_tokens": budget.max_tokens,
            "max_cost": serialize_money(Money(budget.max_cost, budget.currency)) if budget.max_cost else None,
        },
    }


class UsageClient(Resource):
    """Token usage and cost."""

    get, aget = sync_and_async(get_usage)
    get_thread, aget_thread = sync_and_async(get_token_usage)
    get_run, aget_run = sync_and_async(get_run_usage)
    get_stats, aget_stats = sync_and_async(get_stats)


def serialize_spent(spent: Spending) -> dict[str, Any]:
    """Return usage in the shape of the HTTP API."""
    counts = {name: getattr(spent.counts, name) for name in TokenCounts.__slots__}
    return {
        **counts,
        "total_tokens": spent.counts.total_tokens,
        "cost": serialize_money(spent.cost) if spent.cost else None,
        "known_costs": [serialize_money(money) for money in spent.costs],
        "unpriced_tokens": spent.unpriced_tokens,
    }


def serialize_prefix_cache(usage: PrefixCacheUsage) -> dict[str, Any]:
    """Return the use of the prefix cache in the shape of the HTTP API."""
    breaks = [{"request": each.request, "caller": each.caller, **asdict(each.broken)} for each in usage.breaks]
    return {
        "requests": usage.requests,
        "prompt_tokens": usage.prompt_tokens,
        "prefix_tokens": usage.prefix_tokens,
        "prefix_fraction": usage.prefix_fraction,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "cached_fraction": usage.cached_fraction,
        "breaks": breaks,
    }


def serialize_money(money: Money) -> dict[str, str]:
    """Return an amount as a decimal string with its currency."""
    return {"amount": f"{money.amount:f}", "currency": money.currency}


def serialize_shares(shares: Sequence[UsageShare]) -> list[dict[str, Any]]:
    """Return the usage of several parts, each with its name."""
    return [serialize_share(share) for share in shares]


def serialize_share(share: UsageShare) -> dict[str, Any]:
    """Return the usage of one part with its name."""
    return {"name": share.name, **serialize_spent(share.spending)}


def serialize_run(spending: RunSpending) -> dict[str, Any]:
    """Return a run with its usage."""
    run = spending.run.run
    shown = {name: to_jsonable_python(getattr(run, name)) for name in RUN_FIELDS}
    lasted = (run.updated_at - run.created_at).total_seconds()
    return {
        **shown,
        "title": spending.run.title,
        "duration_seconds": lasted,
        "usage": serialize_spent(spending.spending),
    }
