"""Tests of the budget shared by a run, its title and memory extraction."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.budget.account import (
    Account,
    Amount,
    BudgetTracker,
    extraction_limit,
    subtract_amount,
)
from deerflow.budget.model_calls import is_free_failure
from deerflow.config.sections.models import PricingConfig
from deerflow.domain.errors import ModelRejected, ModelResponseTooLarge, ModelUnavailable
from deerflow.domain.usage import BudgetSpent, ModelCallRequest, ModelCallUsage, PromptSize, SpendingLimit, TokenCounts
from deerflow.models.usage import UNIT
from tests.budget.support import MemoryReservationLog

PRICE = PricingConfig(input=Decimal(3), output=Decimal(15))
Call = tuple[int, int, str]
"""Length of a request and its answer, and the outcome."""
CALLS = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from(["all", "some", "refused"])))


def create_tracker(
    limit: SpendingLimit, account: Account | None = None, *, reserves_final_answer: bool = False
) -> BudgetTracker:
    prices = {"m": PRICE}
    return BudgetTracker(
        limit, account or Account(), lambda: prices, MemoryReservationLog(), reserves_final_answer=reserves_final_answer
    )


async def make_call(tracker: BudgetTracker, prompt: int, output: int, outcome: str, *, is_last: bool = False) -> Amount:
    """Make a call and return the amount it used."""
    try:
        grant = await tracker.reserve(ModelCallRequest("lead_agent", "m", PromptSize(0, prompt), output, 1, is_last))
    except BudgetSpent:
        return Amount()
    if outcome == "refused":
        tracker.settle(grant, None, is_rejected=True)
        return Amount()
    read, said = (grant.prompt_tokens, grant.output_tokens) if outcome == "all" else (prompt // 4, output // 4)
    said = min(said, grant.output_tokens)
    tracker.settle(grant, ModelCallUsage(TokenCounts(read, said)) if outcome == "some" else None)
    return Amount(read + said, read * 3 * UNIT // 10**6 + said * 15 * UNIT // 10**6)


@given(limit=st.integers(0, 60_000), cents=st.integers(0, 100), run=CALLS, title=CALLS, extraction=CALLS)
async def test_run_title_and_extraction_together_stay_within_the_limit(
    limit: int,
    cents: int,
    run: list[tuple[int, int, str]],
    title: list[tuple[int, int, str]],
    extraction: list[tuple[int, int, str]],
) -> None:
    whole = SpendingLimit(limit, Decimal(cents) / 100)
    run_tracker = create_tracker(whole, reserves_final_answer=True)
    used = [await make_call(run_tracker, *call) for call in run]
    used.append(await make_call(run_tracker, 2000, 2000, "all", is_last=True))
    extraction_tracker = create_tracker(run_tracker.close())
    used += [await make_call(extraction_tracker, *call) for call in extraction]
    used += [await make_call(run_tracker, *call) for call in title]
    together = sum(used, Amount())
    assert together.tokens <= limit and together.cost <= cents * UNIT // 100


async def test_unused_final_answer_reserve_pays_for_extraction() -> None:
    run_tracker = create_tracker(SpendingLimit(100_000), reserves_final_answer=True)
    await make_call(run_tracker, 60_000, 15_000, "all")
    assert run_tracker.get_remaining() == SpendingLimit(25_000)
    assert run_tracker.close() == SpendingLimit(18_750) == run_tracker.close()
    assert run_tracker.get_remaining() == SpendingLimit(6250)
    assert (await make_call(run_tracker, 1000, 9000, "all")).tokens == 6250


def test_extraction_limit_leaves_a_share_for_the_title() -> None:
    assert extraction_limit(SpendingLimit(1_000_000), Amount()) == SpendingLimit(1_000_000 - 8192)
    assert extraction_limit(SpendingLimit(5000), Amount(9000)) == SpendingLimit(0)
    assert extraction_limit(SpendingLimit(None, Decimal("1.00")), Amount(5, UNIT // 5)).max_cost == Decimal("0.6")
    assert subtract_amount(SpendingLimit(10), Amount(4)) == SpendingLimit(6)


async def test_closed_tracker_does_not_write_to_the_log() -> None:
    log = MemoryReservationLog()
    run_tracker = BudgetTracker(SpendingLimit(100_000), Account(), dict, log)
    await make_call(run_tracker, 10, 10, "all")
    written = log.last
    run_tracker.close()
    assert (await make_call(run_tracker, 10, 10, "all")).tokens == 20
    assert log.last is written is not None


@pytest.mark.parametrize("limit", [SpendingLimit(5, Decimal("0.10")), SpendingLimit(None, None), SpendingLimit(7)])
def test_limit_survives_storage(limit: SpendingLimit) -> None:
    assert SpendingLimit.from_stored(limit.to_stored()) == limit


def test_an_answer_that_is_too_large_is_paid_for() -> None:
    assert is_free_failure(ModelRejected("no such model"))
    assert not is_free_failure(ModelResponseTooLarge("more than 16 MB"))
    assert not is_free_failure(ModelUnavailable("cannot read the response"))
