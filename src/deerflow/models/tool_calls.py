"""Tool calls that arrive in pieces."""

import json
from dataclasses import dataclass, field
from typing import Any

import orjson
from langchain_core.messages import ToolCallChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.utils.json import parse_partial_json


@dataclass(slots=True)
class _Call:
    """One call as far as it is known, with what was not handed on yet."""

    position: int
    id: str | None = None
    name: str | None = None
    new_id: str | None = None
    new_name: str | None = None
    new_arguments: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


class CallPieces:
    """Sorts the pieces of parallel calls, whatever a vendor does with indexes, ids and names.

    Indexes may be missing, or 0 for every call; ids and names may be repeated with each piece, or come empty.
    """

    __slots__ = ("_by_index", "_calls", "_changed", "extras")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        self._changed: dict[int, _Call] = {}
        self.extras: dict[str, Any] = {}  # what Gemini wants back with a call, by the id of the call

    @property
    def has_news(self) -> bool:
        return bool(self._changed)

    def add(self, piece: dict[str, Any]) -> None:
        """Take one entry of `tool_calls`."""
        function = piece.get("function") or {}
        call = self._call_of(piece.get("index"), piece.get("id"), function.get("name"))
        if arguments := function.get("arguments"):
            text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
            call.new_arguments.append(text)
            call.arguments.append(text)
        if call.id and (extra := piece.get("extra_content")):
            self.extras[call.id] = extra
        self._changed[call.position] = call

    def close(self) -> None:
        """Spoil arguments that end in the middle: LangChain would complete them by guessing and make the call."""
        for call in self._calls:
            if spoiler := spoiler_for("".join(call.arguments)):
                call.new_arguments.append(spoiler)
                self._changed[call.position] = call

    def take(self) -> list[ToolCallChunk]:
        """What is new since the last time, one chunk per call."""
        chunks = [_chunk(call) for call in self._changed.values()]
        self._changed.clear()
        return chunks

    def _call_of(self, index: int | None, call_id: str | None, name: str | None) -> _Call:
        call = self._by_index.get(index)
        if call is None or _begins_another(call, index, call_id, name):
            call = _Call(position=len(self._calls))
            self._calls.append(call)
            self._by_index[index] = call
        if call_id and not call.id:
            call.id = call.new_id = call_id
        if name and not call.name:
            call.name = call.new_name = name
        return call


def spoiler_for(arguments: str) -> str:
    """What makes arguments that are cut off impossible to complete; nothing for whole ones and plainly wrong ones."""
    try:
        json.loads(arguments or "{}", strict=False)  # models write line breaks into strings
    except json.JSONDecodeError:
        return _end_of_all(arguments) if _would_be_completed(arguments) else ""
    return ""


def _would_be_completed(arguments: str) -> bool:
    try:
        return isinstance(parse_partial_json(arguments), dict)
    except json.JSONDecodeError:
        return False


def _end_of_all(arguments: str) -> str:
    """Brackets that cannot both close something here, behind the end of a string that is still open."""
    rest = arguments.replace("\\\\", "").replace('\\"', "")
    if rest.count('"') % 2 == 0:
        return "}]"
    return '\\"}]' if rest.endswith("\\") else '"}]'


def _begins_another(call: _Call, index: int | None, call_id: str | None, name: str | None) -> bool:
    if call_id and call.id:
        return call_id != call.id
    return index is None and bool(name) and call.name is not None


def _chunk(call: _Call) -> ToolCallChunk:
    chunk = tool_call_chunk(name=call.new_name, args="".join(call.new_arguments), id=call.new_id, index=call.position)
    call.new_id = call.new_name = None
    call.new_arguments.clear()
    return chunk
