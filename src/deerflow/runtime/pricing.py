"""What was taken and what it cost, as far as prices are known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from deerflow.config.models import PricingConfig
from deerflow.domain.usage import TokenCounts, UsageEntry, total
from deerflow.models.pricing import amount, cost_of
from deerflow.persistence.usage import UsageSum

LARGEST = 2**53

Prices = Callable[[], Mapping[str, PricingConfig]]
"""The prices of the moment, by the names of the models."""


@dataclass(frozen=True, slots=True)
class Money:
    """An amount, exact."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What some calls took, and what is known of their cost."""

    counts: TokenCounts
    costs: Sequence[Money] = ()
    """By currency, as far as prices are known."""
    unpriced_tokens: int = 0

    @property
    def cost(self) -> Money | None:
        """The cost of all; None when a price is not known, or when it would be a sum of different currencies."""
        return self.costs[0] if len(self.costs) == 1 and not self.unpriced_tokens else None


def priced(entry: UsageEntry, prices: Mapping[str, PricingConfig]) -> UsageEntry:
    """`entry` with what it cost, if that is known."""
    pricing = prices.get(entry.model)
    if pricing is None or not entry.counts.total_tokens:
        return entry
    cost = cost_of(entry.counts, pricing)
    # What does not fit into a column is worked out when it is asked for.
    return replace(entry, cost=cost, currency=pricing.currency) if cost < LARGEST else entry


def spent(sums: Sequence[UsageSum], prices: Mapping[str, PricingConfig]) -> Spent:
    """All of `sums` together. What had no price when it was taken is valued at today's, if there is one."""
    costs: dict[str, int] = {}
    unpriced = 0
    for each in (valued(one, prices) for one in sums):
        if each.cost is None or each.currency is None:
            unpriced += each.counts.total_tokens
        else:
            costs[each.currency] = costs.get(each.currency, 0) + each.cost
    money = [Money(amount(cost), currency) for currency, cost in sorted(costs.items())]
    return Spent(total(each.counts for each in sums), money, unpriced)


def valued(each: UsageSum, prices: Mapping[str, PricingConfig]) -> UsageSum:
    """A sum with its cost, if that is known by now."""
    pricing = prices.get(each.model)
    if each.cost is not None or pricing is None or not each.counts.total_tokens:
        return each
    return replace(each, cost=cost_of(each.counts, pricing), currency=pricing.currency)
