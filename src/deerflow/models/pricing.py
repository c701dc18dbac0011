"""What tokens cost, in whole numbers: sums of costs are exact however many there are."""

from decimal import Decimal

from deerflow.config.models import PricingConfig
from deerflow.domain.usage import TokenCounts

PRICE_UNIT = 10**6
"""A price per million tokens has six decimals at most, so a token costs whole millionths of a millionth."""
UNIT = 10**12


def cost_of(counts: TokenCounts, pricing: PricingConfig) -> int:
    """What tokens cost, in millionths of a millionth of the currency."""
    cached = min(counts.cached_tokens, counts.input_tokens)
    written = min(counts.cache_write_tokens, counts.input_tokens - cached)
    thought = min(counts.reasoning_tokens, counts.output_tokens)
    return sum(
        tokens * int((pricing.input if price is None else price) * PRICE_UNIT)
        for tokens, price in (
            (counts.input_tokens - cached - written, pricing.input),
            (cached, pricing.cached_input),
            (written, pricing.cache_write),
            (counts.output_tokens - thought, pricing.output),
            (thought, pricing.output if pricing.reasoning is None else pricing.reasoning),
        )
    )


def dearest(pricing: PricingConfig) -> tuple[int, int]:
    """What a token of the request and one of the answer cost at most, in the same unit."""
    read = (pricing.input, pricing.cached_input, pricing.cache_write)
    written = (pricing.output, pricing.reasoning)
    return highest(read), highest(written)


def highest(prices: tuple[Decimal | None, ...]) -> int:
    """The highest of the known prices, per token."""
    return max(int(price * PRICE_UNIT) for price in prices if price is not None)


def amount(cost: int) -> Decimal:
    """A cost in its currency, without needless zeros."""
    exact = Decimal(cost) / UNIT
    return exact.quantize(Decimal(1)) if exact == exact.to_integral() else exact.normalize()
