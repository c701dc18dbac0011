"""Accumulation of streamed deltas into message chunks."""

from typing import Any, Literal

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call

from deerflow.models.openai_compatible.tool_calls import ToolCallAccumulator
from deerflow.models.openai_compatible.vendors import Vendor

OPENING_TAG = "<think>"
CLOSING_TAG = "</think>"


class ThinkTagSplitter:
    """Separates reasoning in a leading `<think>` tag from the answer, for text that arrives in parts."""

    __slots__ = ("_held", "_state")

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "between", "after"] = "before"
        self._held = ""  # text that may be the start of a tag

    @property
    def is_settled(self) -> bool:
        """Return True if all further text belongs to the answer."""
        return self._state == "after"

    def split(self, text: str) -> tuple[str, str]:
        """Return the reasoning and the answer in `text`, including text that was held back before."""
        text, self._held = self._held + text, ""
        reasoning = ""
        if self._state == "before":
            text = self._find_opening(text)
        if self._state == "inside":
            reasoning, text = self._find_closing(text)
        if self._state == "between":
            text = text.lstrip()  # blank lines between reasoning and answer are dropped
            if text:
                self._state = "after"
        return reasoning, text

    def close(self) -> tuple[str, str]:
        """Return the text that was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "inside" else ("", held)

    def _find_opening(self, text: str) -> str:
        start = text.lstrip()
        if start.startswith(OPENING_TAG):
            self._state = "inside"
            return start.removeprefix(OPENING_TAG)
        if OPENING_TAG.startswith(start):
            self._held = text
            return ""
        self._state = "after"
        return text

    def _find_closing(self, text: str) -> tuple[str, str]:
        reasoning, tag, answer = text.partition(CLOSING_TAG)
        if tag:
            self._state = "between"
            return reasoning, answer
        # The longest suffix of the text that may be the start of the closing tag.
        size = next((size for size in range(len(CLOSING_TAG) - 1, 0, -1) if text.endswith(CLOSING_TAG[:size])), 0)
        self._held = text[len(text) - size :]
        return text[: len(text) - size], ""


def to_usage_metadata(usage: dict[str, Any]) -> UsageMetadata:
    """Return the `usage` object of a response as LangChain metadata."""
    input_tokens = usage.get("prompt_tokens") or 0
    output_tokens = usage.get("completion_tokens") or 0
    total_tokens = usage.get("total_tokens")
    return UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens if total_tokens is None else total_tokens,
        input_token_details=_to_input_details(usage),
        output_token_details=_to_output_details(usage),
    )


def _to_input_details(usage: dict[str, Any]) -> InputTokenDetails:
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens")
    if cached is None:  # DeepSeek, then Kimi, before they adopted OpenAI's name
        cached = usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens"))
    found = InputTokenDetails()
    if (audio := details.get("audio_tokens")) is not None:
        found["audio"] = audio
    if cached is not None:
        found["cache_read"] = cached
    if (written := details.get("cache_write_tokens")) is not None:
        found["cache_creation"] = written
    return found


def _to_output_details(usage: dict[str, Any]) -> OutputTokenDetails:
    details = usage.get("completion_tokens_details") or {}
    found = OutputTokenDetails()
    if (audio := details.get("audio_tokens")) is not None:
        found["audio"] = audio
    if (reasoning := details.get("reasoning_tokens")) is not None:
        found["reasoning"] = reasoning
    return found


MODEL_PROVIDER = "openai-compatible"


class StreamAccumulator:
    """Collects deltas and returns them as chunks; data about the whole answer comes with the last chunk."""

    __slots__ = (
        "_calls",
        "_details",
        "_latest",
        "_reasoning",
        "_reasoning_field",
        "_refusal",
        "_tags",
        "_text",
        "_usage",
        "finish_reason",
    )

    def __init__(self, vendor: Vendor) -> None:
        self.finish_reason: str | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._reasoning_field = "reasoning_content"
        self._details: list[dict[str, Any]] = []
        self._calls = ToolCallAccumulator()
        self._tags = ThinkTagSplitter() if vendor.may_think_inline else None
        self._usage: dict[str, Any] | None = None
        self._latest: dict[str, Any] = {}

    @property
    def has_new_content(self) -> bool:
        """Return True if there is content that was not returned yet."""
        return bool(self._text or self._reasoning or self._calls.has_new_content)

    def add(self, event: dict[str, Any]) -> None:
        """Add an event of the stream."""
        self._latest = event
        if choices := event.get("choices"):
            choice = choices[0]
            if delta := choice.get("delta") or choice.get("message"):
                self._add_delta(delta)
            if finish_reason := choice.get("finish_reason"):
                self.finish_reason = finish_reason
                self._usage = choice.get("usage") or self._usage  # where Kimi puts it
        if usage := event.get("usage"):
            self._usage = usage  # some vendors send running totals: the last one counts

    def take_chunk(self) -> AIMessageChunk:
        """Return the content received since the last call."""
        extra = {"reasoning_content": "".join(self._reasoning)} if self._reasoning else {}
        calls = self._calls.take_chunks() if self._calls.has_new_content else []
        chunk = AIMessageChunk(content="".join(self._text), additional_kwargs=extra, tool_call_chunks=calls)
        self._text.clear()
        self._reasoning.clear()
        return chunk

    def finish(self) -> AIMessageChunk:
        """Return the last chunk: remaining content, metadata and usage."""
        if self._tags is not None:
            self._add_split(*self._tags.close())
        self._calls.close()
        chunk = self.take_chunk()
        chunk.additional_kwargs |= self._build_extras()
        chunk.response_metadata = self._build_metadata()
        chunk.usage_metadata = to_usage_metadata(self._usage) if self._usage else None
        chunk.chunk_position = "last"
        return chunk

    def _add_delta(self, delta: dict[str, Any]) -> None:
        if content := delta.get("content"):
            if isinstance(content, str):
                self._add_text(content)
            else:
                self._add_blocks(content)
        if reasoning := delta.get("reasoning_content"):
            self._reasoning.append(reasoning)
        elif reasoning := delta.get("reasoning"):
            self._reasoning.append(reasoning)
            self._reasoning_field = "reasoning"
        if details := delta.get("reasoning_details"):
            self._details += details
        if calls := delta.get("tool_calls"):
            for call in calls:
                self._calls.add(call)
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)

    def _add_text(self, text: str) -> None:
        if self._tags is None or self._tags.is_settled:
            self._text.append(text)
        else:
            self._add_split(*self._tags.split(text))

    def _add_split(self, reasoning: str, text: str) -> None:
        if reasoning:
            self._reasoning.append(reasoning)
        if text:
            self._text.append(text)

    def _add_blocks(self, blocks: list[dict[str, Any]]) -> None:
        """Add content blocks, which Mistral sends while it reasons."""
        for block in blocks:
            if block.get("type") == "thinking":
                self._reasoning += [part["text"] for part in block.get("thinking", ()) if part.get("text")]
            elif text := block.get("text"):
                self._text.append(text)

    def _build_extras(self) -> dict[str, Any]:
        found = {
            "refusal": "".join(self._refusal),
            "reasoning_details": _join_details(self._details),
            "tool_call_extras": self._calls.extras,
        }
        return {name: value for name, value in found.items() if value}

    def _build_metadata(self) -> dict[str, Any]:
        latest = self._latest
        found = {
            "finish_reason": self.finish_reason,
            "model_name": latest.get("model"),
            "system_fingerprint": latest.get("system_fingerprint"),
            "service_tier": latest.get("service_tier"),
            "id": latest.get("id"),
            "reasoning_field": self._reasoning_field if self._reasoning_field != "reasoning_content" else None,
        }
        return {"model_provider": MODEL_PROVIDER} | {name: value for name, value in found.items() if value}


def parse_response(response: dict[str, Any], vendor: Vendor) -> AIMessage:
    """Return the message in a response without streaming."""
    accumulator = StreamAccumulator(vendor)
    accumulator.add(response)
    message = accumulator.finish()
    calls, invalid_calls = _parse_calls(response)
    return AIMessage(
        content=message.content,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        tool_calls=calls,
        invalid_tool_calls=invalid_calls,
    )


def _parse_calls(response: dict[str, Any]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    calls: list[ToolCall] = []
    invalid_calls: list[InvalidToolCall] = []
    for raw in response["choices"][0]["message"].get("tool_calls") or ():
        try:
            parsed = parse_tool_call(raw, return_id=True)
        except OutputParserException as error:
            invalid_calls.append(make_invalid_tool_call(raw, str(error)))
            continue
        if parsed and isinstance(parsed["args"], dict):
            calls.append(ToolCall(name=parsed["name"], args=parsed["args"], id=parsed["id"], type="tool_call"))
        elif parsed:
            invalid_calls.append(make_invalid_tool_call(raw, "the arguments are not a JSON object"))
    return calls, invalid_calls


def _join_details(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return reasoning details with the texts of each block joined; other fields keep their last value."""
    whole: list[dict[str, Any]] = []
    for piece in details:
        last = whole[-1] if whole else None
        if last is None or (last.get("type"), last.get("index")) != (piece.get("type"), piece.get("index")):
            whole.append(dict(piece))
            continue
        for name, value in piece.items():
            if name in ("text", "summary", "data") and isinstance(value, str):
                last[name] = (last.get(name) or "") + value
            elif value is not None:
                last[name] = value
    return whole
