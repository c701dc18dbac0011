"""One limit for a run, the title of its thread and what is learned from it, whatever each of them takes."""

from dataclasses import dataclass
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.config.models import PricingConfig
from deerflow.domain.budget import Answered, Asking, BudgetSpent, PromptSize, SpendingLimit
from deerflow.domain.usage import TokenCounts
from deerflow.models.pricing import UNIT
from deerflow.runtime.runs.budget import BookedBudget, Entry, Purse, Sum, for_learning, left_of

PRICE = PricingConfig(input=Decimal(3), output=Decimal(15))
Call = tuple[int, int, str]
"""How long a request and its answer are, and what comes of it."""
CALLS = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from(["all", "some", "refused"])))


@dataclass
class Notebook:
    """A book that remembers the last word."""

    last: Entry | None = None

    async def set_aside(self, entry: Entry) -> None:
        self.last = entry

    def settle(self, entry: Entry) -> None:
        self.last = entry


def budget(limit: SpendingLimit, purse: Purse | None = None, *, puts_by: bool = False) -> BookedBudget:
    prices = {"m": PRICE}
    return BookedBudget(limit, purse or Purse(), lambda: prices, Notebook(), puts_by=puts_by)


async def take(pays: BookedBudget, prompt: int, output: int, outcome: str, *, is_last: bool = False) -> Sum:
    """Make a call that takes what it may; what it really took."""
    try:
        grant = await pays.reserve(Asking("lead_agent", "m", PromptSize(0, prompt), output, 1, is_last))
    except BudgetSpent:
        return Sum()
    if outcome == "refused":
        pays.settle(grant, None, is_refused=True)
        return Sum()
    read, said = (grant.prompt_tokens, grant.output_tokens) if outcome == "all" else (prompt // 4, output // 4)
    said = min(said, grant.output_tokens)
    pays.settle(grant, Answered(TokenCounts(read, said)) if outcome == "some" else None)
    return Sum(read + said, read * 3 * UNIT // 10**6 + said * 15 * UNIT // 10**6)


@given(limit=st.integers(0, 60_000), cents=st.integers(0, 100), run=CALLS, title=CALLS, learning=CALLS)
async def test_all_of_them_together_never_take_more_than_the_limit(
    limit: int,
    cents: int,
    run: list[tuple[int, int, str]],
    title: list[tuple[int, int, str]],
    learning: list[tuple[int, int, str]],
) -> None:
    whole = SpendingLimit(limit, Decimal(cents) / 100)
    of_run = budget(whole, puts_by=True)
    taken = [await take(of_run, *call) for call in run]
    taken.append(await take(of_run, 2000, 2000, "all", is_last=True))
    of_lesson = budget(of_run.close())
    taken += [await take(of_lesson, *call) for call in learning]
    taken += [await take(of_run, *call) for call in title]
    together = sum(taken, Sum())
    assert together.tokens <= limit and together.cost <= cents * UNIT // 100


async def test_what_was_put_by_for_a_last_answer_that_was_not_needed_pays_for_learning() -> None:
    of_run = budget(SpendingLimit(100_000), puts_by=True)
    await take(of_run, 60_000, 15_000, "all")
    assert of_run.rest() == SpendingLimit(25_000)
    assert of_run.close() == SpendingLimit(18_750) == of_run.close()
    assert of_run.rest() == SpendingLimit(6250)
    assert (await take(of_run, 1000, 9000, "all")).tokens == 6250


def test_little_is_kept_for_a_title_and_nothing_where_nothing_is_left() -> None:
    assert for_learning(SpendingLimit(1_000_000), Sum()) == SpendingLimit(1_000_000 - 8192)
    assert for_learning(SpendingLimit(5000), Sum(9000)) == SpendingLimit(0)
    assert for_learning(SpendingLimit(None, Decimal("1.00")), Sum(5, UNIT // 5)).max_cost == Decimal("0.6")
    assert left_of(SpendingLimit(10), Sum(4)) == SpendingLimit(6)


async def test_a_run_without_a_log_any_more_writes_nothing_into_it() -> None:
    book = Notebook()
    of_run = BookedBudget(SpendingLimit(100_000), Purse(), dict, book)
    await take(of_run, 10, 10, "all")
    written = book.last
    of_run.close()
    assert (await take(of_run, 10, 10, "all")).tokens == 20
    assert book.last is written is not None


@pytest.mark.parametrize("limit", [SpendingLimit(5, Decimal("0.10")), SpendingLimit(None, None), SpendingLimit(7)])
def test_a_limit_is_the_same_once_it_was_stored(limit: SpendingLimit) -> None:
    assert SpendingLimit.of(limit.to_stored()) == limit
