"""Token usage reported by models, and its cost."""

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

from langchain_core.messages import AIMessage

from deerflow.config.sections.models import PricingConfig
from deerflow.domain.usage import UNMETERED, TokenCounts

MAX_TOKENS = 10**12
"""An upper bound for plausible counts; larger ones are errors that must not distort the sums."""


def read_counts(message: AIMessage | None) -> TokenCounts:
    """Return the usage of the call that produced `message`; None when there was no message."""
    usage = message.usage_metadata if message is not None else None
    if not usage:
        return UNMETERED
    input_details, output_details = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    return TokenCounts(
        calls=1,
        input_tokens=read_count(usage, "input_tokens"),
        cached_tokens=read_count(input_details, "cache_read"),
        cache_write_tokens=read_count(input_details, "cache_creation"),
        output_tokens=read_count(usage, "output_tokens"),
        reasoning_tokens=read_count(output_details, "reasoning"),
    )


def read_count(figures: Mapping[str, Any], name: str) -> int:
    """Return a count as an integer; 0 for missing and invalid values, since vendors omit some or send null."""
    value = figures.get(name)
    if isinstance(value, float) and isfinite(value):
        value = int(value)
    return min(max(0, value), MAX_TOKENS) if isinstance(value, int) else 0


PRICE_UNIT = 10**6
"""A price per million tokens has at most six decimals, so a token costs an integer multiple of 10⁻¹²."""
UNIT = 10**12


def compute_cost(counts: TokenCounts, pricing: PricingConfig) -> int:
    """Return the cost of tokens, in 10⁻¹² of the currency."""
    cached = min(counts.cached_tokens, counts.input_tokens)
    written = min(counts.cache_write_tokens, counts.input_tokens - cached)
    reasoning = min(counts.reasoning_tokens, counts.output_tokens)
    return sum(
        tokens * int((pricing.input if price is None else price) * PRICE_UNIT)
        for tokens, price in (
            (counts.input_tokens - cached - written, pricing.input),
            (cached, pricing.cached_input),
            (written, pricing.cache_write),
            (counts.output_tokens - reasoning, pricing.output),
            (reasoning, pricing.output if pricing.reasoning is None else pricing.reasoning),
        )
    )


def get_max_prices(pricing: PricingConfig) -> tuple[int, int]:
    """Return the maximum price of an input token and of an output token, in the same unit."""
    read = (pricing.input, pricing.cached_input, pricing.cache_write)
    written = (pricing.output, pricing.reasoning)
    return get_max_price(read), get_max_price(written)


def get_max_price(prices: tuple[Decimal | None, ...]) -> int:
    """Return the maximum of the known prices, per token."""
    return max(int(price * PRICE_UNIT) for price in prices if price is not None)


def to_amount(cost: int) -> Decimal:
    """Return a cost in its currency, without trailing zeros."""
    exact = Decimal(cost) / UNIT
    return exact.quantize(Decimal(1)) if exact == exact.to_integral() else exact.normalize()
