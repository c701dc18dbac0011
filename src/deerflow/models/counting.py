"""What a model says a call took, read with care."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from langchain_core.messages import AIMessage

from deerflow.domain.usage import UNMETERED, TokenCounts

MOST_TOKENS = 10**12
"""More than this no call takes; a larger figure is a mistake that must not spoil the sums."""


def counts_of(message: AIMessage | None) -> TokenCounts:
    """What the call took that led to `message`; None when nothing came."""
    usage = message.usage_metadata if message is not None else None
    if not usage:
        return UNMETERED
    given, said = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    return TokenCounts(
        calls=1,
        input_tokens=whole(usage, "input_tokens"),
        cached_tokens=whole(given, "cache_read"),
        cache_write_tokens=whole(given, "cache_creation"),
        output_tokens=whole(usage, "output_tokens"),
        reasoning_tokens=whole(said, "reasoning"),
    )


def whole(figures: Mapping[str, Any], name: str) -> int:
    """A count; vendors leave some out, some say null, and who knows what a broken one says."""
    value = figures.get(name)
    if not isinstance(value, int | float) or not isfinite(value):
        return 0
    return min(max(0, int(value)), MOST_TOKENS)
