"""What was spent."""

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunStatus
from deerflow.domain.usage import TokenCounts
from deerflow.runtime.pricing import Money, Spent
from deerflow.runtime.usage import RunSpending, Share

RUN_FIELDS = ("run_id", "thread_id", "assistant_id", "status", "error", "created_at", "updated_at")


async def get_token_usage(session: Session, thread_id: str) -> dict[str, Any]:
    """What a thread has taken: tokens and costs, by model and by caller, and how full the model's window is.

    Raises:
        NotFound: there is no such thread.
    """
    usage = await session.harness.resources.usage.of_thread(thread_id, LOCAL_USER)
    context = usage.context
    window = context.window_tokens if context else None
    return {
        "thread_id": thread_id,
        "totals": show_spent(usage.totals),
        "by_model": show_shares(usage.by_model),
        "by_caller": show_shares(usage.by_caller),
        "context_usage": None
        if context is None
        else {
            "model": context.model,
            "used_tokens": context.used_tokens,
            "window_tokens": window,
            "fraction": round(context.used_tokens / window, 4) if window else None,
        },
    }


async def get_run_usage(session: Session, thread_id: str, run_id: str) -> dict[str, Any]:
    """What a run has taken; it is known when it has ended.

    Raises:
        NotFound: there is no such run.
    """
    run = await session.harness.runs.get(thread_id, run_id, LOCAL_USER)
    return show_spent(await session.harness.resources.usage.of_run(run))


async def get_stats(session: Session) -> dict[str, Any]:
    """Threads, runs and what they have taken, all in all."""
    stats = await session.harness.resources.usage.stats(LOCAL_USER)
    by_status = {status.value: count for status, count in stats.runs.items()}
    runs = sum(by_status.values())
    return {"threads": stats.threads, "runs": runs, "runs_by_status": by_status, "totals": show_spent(stats.totals)}


async def list_all_runs(
    session: Session, limit: int = 50, offset: int = 0, status: RunStatus | None = None
) -> dict[str, Any]:
    """The runs of all threads, newest first, each with what it has taken."""
    found = await session.harness.resources.usage.runs(LOCAL_USER, limit + 1, offset, status)
    following = offset + limit if len(found) > limit else None
    return {"runs": [show_run(each) for each in found[:limit]], "next_offset": following}


async def get_usage(session: Session, days: int = 30, timezone: str = "UTC") -> dict[str, Any]:
    """What was taken in the latest `days`, as the calendar of a time zone has them.

    Raises:
        InvalidRequest: there is no such time zone.
    """
    usage = await session.harness.resources.usage.daily(LOCAL_USER, days, timezone)
    return {
        "timezone": timezone,
        "totals": show_spent(usage.totals),
        "days": show_shares(usage.by_day),
        "by_model": show_shares(usage.by_model),
        "by_caller": show_shares(usage.by_caller),
    }


def show_spent(spent: Spent) -> dict[str, Any]:
    """What was spent, in the shape of the HTTP API."""
    counts = {name: getattr(spent.counts, name) for name in TokenCounts.__slots__}
    return {
        **counts,
        "total_tokens": spent.counts.total_tokens,
        "cost": show_money(spent.cost) if spent.cost else None,
        "known_costs": [show_money(money) for money in spent.costs],
        "unpriced_tokens": spent.unpriced_tokens,
    }


def show_money(money: Money) -> dict[str, str]:
    """An amount, to the last digit."""
    return {"amount": f"{money.amount:f}", "currency": money.currency}


def show_shares(shares: Sequence[Share]) -> list[dict[str, Any]]:
    """Shares by their names."""
    return [show_share(share) for share in shares]


def show_share(share: Share) -> dict[str, Any]:
    """One share."""
    return {"name": share.name, **show_spent(share.spent)}


def show_run(spending: RunSpending) -> dict[str, Any]:
    """A run with what it has taken."""
    run = spending.run.run
    shown = {name: to_jsonable_python(getattr(run, name)) for name in RUN_FIELDS}
    lasted = (run.updated_at - run.created_at).total_seconds()
    return {**shown, "title": spending.run.title, "duration_seconds": lasted, "usage": show_spent(spending.spent)}
