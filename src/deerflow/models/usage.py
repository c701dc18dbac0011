"""What an answer cost, from the words of the vendors to those of LangChain."""

from typing import Any

from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata


def usage_metadata(usage: dict[str, Any]) -> UsageMetadata:
    """The `usage` object of a response."""
    input_tokens = usage.get("prompt_tokens") or 0
    output_tokens = usage.get("completion_tokens") or 0
    total_tokens = usage.get("total_tokens")
    return UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens if total_tokens is None else total_tokens,
        input_token_details=_input_details(usage),
        output_token_details=_output_details(usage),
    )


def _input_details(usage: dict[str, Any]) -> InputTokenDetails:
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens")
    if cached is None:  # DeepSeek, then Kimi, before they took over OpenAI's name
        cached = usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens"))
    found = InputTokenDetails()
    if (audio := details.get("audio_tokens")) is not None:
        found["audio"] = audio
    if cached is not None:
        found["cache_read"] = cached
    if (written := details.get("cache_write_tokens")) is not None:
        found["cache_creation"] = written
    return found


def _output_details(usage: dict[str, Any]) -> OutputTokenDetails:
    details = usage.get("completion_tokens_details") or {}
    found = OutputTokenDetails()
    if (audio := details.get("audio_tokens")) is not None:
        found["audio"] = audio
    if (reasoning := details.get("reasoning_tokens")) is not None:
        found["reasoning"] = reasoning
    return found
