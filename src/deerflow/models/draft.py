"""An answer while it arrives: what was received and not handed on yet."""

from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call

from deerflow.models.quirks import Vendor
from deerflow.models.thinking_tags import ThinkingTags
from deerflow.models.tool_calls import CallPieces
from deerflow.models.usage import usage_metadata

MODEL_PROVIDER = "openai-compatible"


class Draft:
    """Collects deltas and hands them on as chunks; what concerns the whole answer comes with the last chunk."""

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
        self._calls = CallPieces()
        self._tags = ThinkingTags() if vendor.may_think_inline else None
        self._usage: dict[str, Any] | None = None
        self._latest: dict[str, Any] = {}

    @property
    def has_news(self) -> bool:
        """Whether there is something a reader would see."""
        return bool(self._text or self._reasoning or self._calls.has_news)

    def add(self, event: dict[str, Any]) -> None:
        """Take one event of the stream."""
        self._latest = event
        if choices := event.get("choices"):
            choice = choices[0]
            if delta := choice.get("delta") or choice.get("message"):
                self._add_delta(delta)
            if finish_reason := choice.get("finish_reason"):
                self.finish_reason = finish_reason
                self._usage = choice.get("usage") or self._usage  # where Kimi puts it
        if usage := event.get("usage"):
            self._usage = usage  # some vendors count up with every event: the last one is right

    def take(self) -> AIMessageChunk:
        """What arrived since the last time."""
        extra = {"reasoning_content": "".join(self._reasoning)} if self._reasoning else {}
        calls = self._calls.take() if self._calls.has_news else []
        chunk = AIMessageChunk(content="".join(self._text), additional_kwargs=extra, tool_call_chunks=calls)
        self._text.clear()
        self._reasoning.clear()
        return chunk

    def finish(self) -> AIMessageChunk:
        """The last chunk: the rest, and what is known only at the end."""
        if self._tags is not None:
            self._add_split(*self._tags.close())
        self._calls.close()
        chunk = self.take()
        chunk.additional_kwargs |= self._extras()
        chunk.response_metadata = self._metadata()
        chunk.usage_metadata = usage_metadata(self._usage) if self._usage else None
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
        """Mistral sends content as blocks while it reasons."""
        for block in blocks:
            if block.get("type") == "thinking":
                self._reasoning += [part["text"] for part in block.get("thinking", ()) if part.get("text")]
            elif text := block.get("text"):
                self._text.append(text)

    def _extras(self) -> dict[str, Any]:
        found = {
            "refusal": "".join(self._refusal),
            "reasoning_details": _joined(self._details),
            "tool_call_extras": self._calls.extras,
        }
        return {name: value for name, value in found.items() if value}

    def _metadata(self) -> dict[str, Any]:
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


def whole_answer(response: dict[str, Any], vendor: Vendor) -> AIMessage:
    """The message in a response that was not streamed."""
    draft = Draft(vendor)
    draft.add(response)
    message = draft.finish()
    calls, invalid_calls = _parsed_calls(response)
    return AIMessage(
        content=message.content,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        tool_calls=calls,
        invalid_tool_calls=invalid_calls,
    )


def _parsed_calls(response: dict[str, Any]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
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
            invalid_calls.append(make_invalid_tool_call(raw, "the arguments are JSON, but no object"))
    return calls, invalid_calls


def _joined(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reasoning details as they would have come in one piece: texts of one block joined, the rest as sent last."""
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
