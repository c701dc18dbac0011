"""Usage with its cost, as far as prices are known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from deerflow.config.sections.models import PricingConfig
from deerflow.domain.usage import TokenCounts, UsageEntry, sum_counts
from deerflow.models.usage import compute_cost, to_amount
from deerflow.persistence.queries.usage import UsageTotal

MAX_STORED_COST = 2**53

Prices = Callable[[], Mapping[str, PricingConfig]]
"""Returns the current prices by model name."""


@dataclass(frozen=True, slots=True)
class Money:
    """Exact amount of a currency."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Spending:
    """Usage of some calls and its known cost."""

    counts: TokenCounts
    costs: Sequence[Money] = ()
    """One per currency, as far as prices are known."""
    unpriced_tokens: int = 0

    @property
    def cost(self) -> Money | None:
        """Return the total cost; None when a price is unknown or several currencies are involved."""
        return self.costs[0] if len(self.costs) == 1 and not self.unpriced_tokens else None


def add_cost(entry: UsageEntry, prices: Mapping[str, PricingConfig]) -> UsageEntry:
    """Return `entry` with its cost, if the price is known."""
    pricing = prices.get(entry.model)
    if pricing is None or not entry.counts.total_tokens:
        return entry
    cost = compute_cost(entry.counts, pricing)
    # A cost too large for the column is computed when it is read.
    return replace(entry, cost=cost, currency=pricing.currency) if cost < MAX_STORED_COST else entry


def sum_spending(sums: Sequence[UsageTotal], prices: Mapping[str, PricingConfig]) -> Spending:
    """Return the total of `sums`. Usage without a price at the time is valued at the current price, if there is one."""
    costs: dict[str, int] = {}
    unpriced = 0
    for each in (add_current_cost(one, prices) for one in sums):
        if each.cost is None or each.currency is None:
            unpriced += each.counts.total_tokens
        else:
            costs[each.currency] = costs.get(each.currency, 0) + each.cost
    money = [Money(to_amount(cost), currency) for currency, cost in sorted(costs.items())]
    return Spending(sum_counts(each.counts for each in sums), money, unpriced)


def add_current_cost(each: UsageTotal, prices: Mapping[str, PricingConfig]) -> UsageTotal:
    """Return a sum with its cost at the current price, if it has none yet."""
    pricing = prices.get(each.model)
    if each.cost is not None or pricing is None or not each.counts.total_tokens:
        return each
    return replace(each, cost=compute_cost(each.counts, pricing), currency=pricing.currency)
