"""Accumulation of tool calls that arrive in parts."""

import json
from dataclasses import dataclass, field
from typing import Any

import orjson
from langchain_core.messages import ToolCallChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.utils.json import parse_partial_json


@dataclass(slots=True)
class _PartialCall:
    """A tool call received so far, and the parts that were not returned yet."""

    position: int
    id: str | None = None
    name: str | None = None
    new_id: str | None = None
    new_name: str | None = None
    new_arguments: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


class ToolCallAccumulator:
    """Assembles parallel tool calls, tolerating vendors' differences in indexes, ids and names.

    Indexes may be missing, or 0 for every call; ids and names may be repeated with each part, or be empty.
    """

    __slots__ = ("_by_index", "_calls", "_changed", "extras")

    def __init__(self) -> None:
        self._calls: list[_PartialCall] = []
        self._by_index: dict[int | None, _PartialCall] = {}
        self._changed: dict[int, _PartialCall] = {}
        self.extras: dict[str, Any] = {}  # data that Gemini requires back with a call, by call id

    @property
    def has_new_content(self) -> bool:
        return bool(self._changed)

    def add(self, piece: dict[str, Any]) -> None:
        """Add an entry of `tool_calls`."""
        function = piece.get("function") or {}
        call = self._find_call(piece.get("index"), piece.get("id"), function.get("name"))
        if arguments := function.get("arguments"):
            text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
            call.new_arguments.append(text)
            call.arguments.append(text)
        if call.id and (extra := piece.get("extra_content")):
            self.extras[call.id] = extra
        self._changed[call.position] = call

    def close(self) -> None:
        """Invalidate incomplete arguments: LangChain would complete them by guessing and make the call."""
        for call in self._calls:
            if spoiler := make_invalidating_suffix("".join(call.arguments)):
                call.new_arguments.append(spoiler)
                self._changed[call.position] = call

    def take_chunks(self) -> list[ToolCallChunk]:
        """Return the parts received since the last call, one chunk per call."""
        chunks = [_to_chunk(call) for call in self._changed.values()]
        self._changed.clear()
        return chunks

    def _find_call(self, index: int | None, call_id: str | None, name: str | None) -> _PartialCall:
        call = self._by_index.get(index)
        if call is None or _starts_new_call(call, index, call_id, name):
            call = _PartialCall(position=len(self._calls))
            self._calls.append(call)
            self._by_index[index] = call
        if call_id and not call.id:
            call.id = call.new_id = call_id
        if name and not call.name:
            call.name = call.new_name = name
        return call


def make_invalidating_suffix(arguments: str) -> str:
    """Return a suffix that prevents completion of truncated arguments; empty for complete and for invalid ones."""
    try:
        json.loads(arguments or "{}", strict=False)  # models write line breaks into strings
    except json.JSONDecodeError:
        return _make_suffix(arguments) if _would_be_completed(arguments) else ""
    return ""


def _would_be_completed(arguments: str) -> bool:
    try:
        return isinstance(parse_partial_json(arguments), dict)
    except json.JSONDecodeError:
        return False


def _make_suffix(arguments: str) -> str:
    """Return mismatched brackets, after closing an open string."""
    rest = arguments.replace("\\\\", "").replace('\\"', "")
    if rest.count('"') % 2 == 0:
        return "}]"
    return '\\"}]' if rest.endswith("\\") else '"}]'


def _starts_new_call(call: _PartialCall, index: int | None, call_id: str | None, name: str | None) -> bool:
    if call_id and call.id:
        return call_id != call.id
    return index is None and bool(name) and call.name is not None


def _to_chunk(call: _PartialCall) -> ToolCallChunk:
    chunk = tool_call_chunk(name=call.new_name, args="".join(call.new_arguments), id=call.new_id, index=call.position)
    call.new_id = call.new_name = None
    call.new_arguments.clear()
    return chunk
