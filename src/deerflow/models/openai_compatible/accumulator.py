"""Accumulation of streamed deltas into message chunks."""

from typing import Any, Literal

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call

from deerflow.models.openai_compatible.tool_calls import CallPart, ToolCallAccumulator
from deerflow.models.openai_compatible.vendors import Vendor, make_shape_error
from deerflow.models.usage import read_count

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
    """Return the `usage` object of a response as LangChain metadata. Invalid counts are 0."""
    input_tokens, output_tokens = read_count(usage, "prompt_tokens"), read_count(usage, "completion_tokens")
    has_total = usage.get("total_tokens") is not None
    return UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=read_count(usage, "total_tokens") if has_total else input_tokens + output_tokens,
        input_token_details=_to_input_details(usage),
        output_token_details=_to_output_details(usage),
    )


def _to_input_details(usage: dict[str, Any]) -> InputTokenDetails:
    details = _get_object(usage, "prompt_tokens_details")
    found = InputTokenDetails()
    if details.get("audio_tokens") is not None:
        found["audio"] = read_count(details, "audio_tokens")
    if details.get("cached_tokens") is not None:
        found["cache_read"] = read_count(details, "cached_tokens")
    else:  # DeepSeek, then Kimi, before they adopted OpenAI's name
        older = next((name for name in ("prompt_cache_hit_tokens", "cached_tokens") if name in usage), None)
        if older is not None and usage[older] is not None:
            found["cache_read"] = read_count(usage, older)
    if details.get("cache_write_tokens") is not None:
        found["cache_creation"] = read_count(details, "cache_write_tokens")
    return found


def _to_output_details(usage: dict[str, Any]) -> OutputTokenDetails:
    details = _get_object(usage, "completion_tokens_details")
    found = OutputTokenDetails()
    if details.get("audio_tokens") is not None:
        found["audio"] = read_count(details, "audio_tokens")
    if details.get("reasoning_tokens") is not None:
        found["reasoning"] = read_count(details, "reasoning_tokens")
    return found


def _get_object(payload: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object, or an empty one: some fields are only informative."""
    value = payload.get(name)
    return value if isinstance(value, dict) else {}


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
        """Add an event of the stream.

        Raises:
            ModelUnavailable: It is not in the format of the API.
        """
        self._latest = event
        if (choice := get_choice(event)) is not None:
            if delta := get_delta(choice):
                self._add_delta(delta)
            if finish_reason := choice.get("finish_reason"):
                self.finish_reason = str(finish_reason)
                self._usage = _get_object(choice, "usage") or self._usage  # where Kimi puts it
        if event.get("usage"):  # some vendors send running totals: the last one counts
            self._usage = _get_object(event, "usage") or self._usage

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
            if len(delta) == 1:  # as in most deltas of an answer
                return
        if (reasoning := delta.get("reasoning_content")) and isinstance(reasoning, str):
            self._reasoning.append(reasoning)
        elif (reasoning := delta.get("reasoning")) and isinstance(reasoning, str):
            self._reasoning.append(reasoning)
            self._reasoning_field = "reasoning"
        if (details := delta.get("reasoning_details")) and isinstance(details, list):
            self._details += [each for each in details if isinstance(each, dict)]
        if delta.get("tool_calls"):
            for call in get_calls(delta):
                self._calls.add(CallPart.parse(call))
        if (refusal := delta.get("refusal")) and isinstance(refusal, str):
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

    def _add_blocks(self, blocks: object) -> None:
        """Add content blocks, which Mistral sends while it reasons."""
        if not isinstance(blocks, list):
            raise make_shape_error("content", blocks)
        for block in blocks:
            if not isinstance(block, dict):
                raise make_shape_error("content block", block)
            if block.get("type") == "thinking":
                thoughts = block.get("thinking")
                self._reasoning += map(get_text, thoughts if isinstance(thoughts, list) else ())
            elif text := get_text(block):
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
        known = {name: value for name, value in found.items() if value and isinstance(value, str)}
        return {"model_provider": MODEL_PROVIDER} | known


def parse_response(response: dict[str, Any], vendor: Vendor) -> AIMessage:
    """Return the message in a response without streaming.

    Raises:
        ModelUnavailable: It is not in the format of the API.
    """
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
    choice = get_choice(response) or {}
    for part in map(CallPart.parse, get_calls(get_delta(choice))):
        raw = {"id": part.id, "function": {"name": part.name, "arguments": part.arguments}}
        try:
            parsed = parse_tool_call(raw, return_id=True)
        except (OutputParserException, ValueError, RecursionError) as error:
            invalid_calls.append(make_invalid_tool_call(raw, str(error)))
            continue
        if parsed and isinstance(parsed["args"], dict):
            calls.append(ToolCall(name=parsed["name"], args=parsed["args"], id=parsed["id"], type="tool_call"))
        elif parsed:
            invalid_calls.append(make_invalid_tool_call(raw, "the arguments are not a JSON object"))
    return calls, invalid_calls


def get_choice(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the first choice of an event; None if it has none, like the event with the usage."""
    choices = event.get("choices")
    if choices is None or choices == []:
        return None
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise make_shape_error("choices", choices)
    return choices[0]


def get_delta(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the delta or message of a choice; empty if it has none."""
    delta = choice.get("delta") or choice.get("message") or {}
    if not isinstance(delta, dict):
        raise make_shape_error("message", delta)
    return delta


def get_calls(delta: dict[str, Any]) -> list[Any]:
    """Return the tool calls of a delta or message."""
    calls = delta.get("tool_calls") or []
    if not isinstance(calls, list):
        raise make_shape_error("tool_calls", calls)
    return calls


def get_text(block: object) -> str:
    """Return the text of a content block; empty if it has none."""
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


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
