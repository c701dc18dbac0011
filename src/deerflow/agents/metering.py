"""What a model call took, read from what came back."""

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from deerflow.domain.usage import UNMETERED, TokenCounts
from deerflow.models.factory import ENTRY


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
    """A count; vendors leave some out, and some say null."""
    return max(0, int(figures.get(name) or 0))


def name_of(model: BaseChatModel, message: AIMessage | None) -> str:
    """How the configuration calls `model`; one that is not in it is called as it calls itself."""
    entry = (model.metadata or {}).get(ENTRY)
    said = message.response_metadata.get("model_name") if message is not None else None
    return str(entry or said or getattr(model, "model_name", None) or model._llm_type)
