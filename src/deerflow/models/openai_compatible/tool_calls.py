"""Accumulation of tool calls that arrive in parts, and completion of their arguments in linear time.

LangChain parses the arguments of every streamed message chunk. Where they are not valid JSON it tries all their
prefixes, each from its beginning, so the cost grows with the square of the length of a chunk: a file of 60 kB in one
chunk holds the event loop for seconds. `parse_partial_arguments` returns the same result and tries only prefixes that
can be complete.
"""

import json
import re
import time
from bisect import bisect_right
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
from langchain_core.messages import AIMessageChunk, ToolCallChunk, ai
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from deerflow.models.openai_compatible.vendors import make_shape_error


@dataclass(frozen=True, slots=True)
class CallPart:
    """An entry of `tool_calls`, with usable values in place of unusual ones."""

    index: int | str | None
    id: str | None
    name: str | None
    arguments: str
    extra: Any = None

    @classmethod
    def parse(cls, entry: object) -> Self:
        """Return the part in an entry.

        Raises:
            ModelUnavailable: It is not in the format of the API.
        """
        function = (entry.get("function") or {}) if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(function, dict):
            raise make_shape_error("tool_calls", entry)
        index, call_id, name = entry.get("index"), entry.get("id"), function.get("name")
        return cls(
            index if isinstance(index, int | str) else None,
            str(call_id) if isinstance(call_id, int | str) else None,
            name if isinstance(name, str) else None,
            _to_arguments(function.get("arguments")),
            entry.get("extra_content"),
        )


def _to_arguments(value: object) -> str:
    """Return arguments as JSON text; some servers send the object itself."""
    if not value or isinstance(value, str):
        return value if isinstance(value, str) else ""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:  # nested too deeply
        raise make_shape_error("arguments", value) from error


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
        self._by_index: dict[int | str | None, _PartialCall] = {}
        self._changed: dict[int, _PartialCall] = {}
        self.extras: dict[str, Any] = {}  # data that Gemini requires back with a call, by call id

    @property
    def has_new_content(self) -> bool:
        return bool(self._changed)

    def add(self, part: CallPart) -> None:
        """Add an entry of `tool_calls`."""
        call = self._find_call(part.index, part.id, part.name)
        if part.arguments:
            call.new_arguments.append(part.arguments)
            call.arguments.append(part.arguments)
        if call.id and part.extra:
            self.extras[call.id] = part.extra
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

    def _find_call(self, index: int | str | None, call_id: str | None, name: str | None) -> _PartialCall:
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
    except (ValueError, RecursionError):  # too many digits, or nested too deeply: LangChain cannot parse it either
        return ""
    return ""


def _would_be_completed(arguments: str) -> bool:
    if len(arguments) > MAX_COMPLETED:  # LangChain itself has no such limit
        return True
    try:
        return isinstance(parse_partial_arguments(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _make_suffix(arguments: str) -> str:
    """Return mismatched brackets, after closing an open string."""
    rest = arguments.replace("\\\\", "").replace('\\"', "")
    if rest.count('"') % 2 == 0:
        return "}]"
    return '\\"}]' if rest.endswith("\\") else '"}]'


def _starts_new_call(call: _PartialCall, index: int | str | None, call_id: str | None, name: str | None) -> bool:
    if call_id and call.id:
        return call_id != call.id
    return index is None and bool(name) and call.name is not None


def _to_chunk(call: _PartialCall) -> ToolCallChunk:
    chunk = tool_call_chunk(name=call.new_name, args="".join(call.new_arguments), id=call.new_id, index=call.position)
    call.new_id = call.new_name = None
    call.new_arguments.clear()
    return chunk


WHITESPACE = " \t\n\r"
TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?P<end>"|\\?\Z)|[][{}]', re.DOTALL)
"""Strings, of which only the last one can be unterminated, and brackets. Possessive groups are wrong before 3.11.5."""
CLOSING = {"{": "}", "[": "]"}
MAX_COMPLETED = 64 * 1024
"""Longer text is not completed: with many brackets that takes about a microsecond per character."""


def use_linear_parser() -> None:
    """Make the message chunks of LangChain parse their tool arguments in linear time."""
    ai.parse_partial_json = parse_partial_arguments  # type: ignore[assignment, attr-defined]


def parse_partial_arguments(text: str, *, strict: bool = False) -> Any:
    """Return the object in `text`, completed if it is truncated; None if its brackets do not match.

    Raises:
        JSONDecodeError: `text` is no part of an object, or too long to complete.
    """
    try:
        return json.loads(text, strict=strict)
    except json.JSONDecodeError:
        # A chunk from the middle of the arguments. LangChain does not use values that are not objects.
        if len(text) > MAX_COMPLETED or not text.lstrip(WHITESPACE).startswith("{"):
            raise
    brackets = _Brackets()
    for token in TOKENS.finditer(text):
        if token["end"] is None and not brackets.add(token.start(), token[0]):
            return None
        if token["end"] in ("", "\\"):  # unterminated
            text = text.removesuffix(token["end"]) + '"'
    closing = brackets.closing
    length = len(text)
    while length > 0:
        try:
            return json.loads(text[:length] + closing, strict=strict)
        except json.JSONDecodeError as problem:
            # Every longer prefix contains the same mistake.
            length = brackets.find_end(len(text[: min(length - 1, problem.pos)].rstrip(WHITESPACE)))
    return json.loads(text, strict=strict)


class _Brackets:
    """Open brackets after each bracket of a text; equal stacks have equal numbers."""

    def __init__(self) -> None:
        self._positions = [-1]
        self._states = [0]
        self._known: dict[tuple[int, str], int] = {}
        self._parents = [(0, "")]

    @property
    def closing(self) -> str:
        """Return the brackets that close the text."""
        found, state = [], self._states[-1]
        while state:
            state, bracket = self._parents[state]
            found.append(bracket)
        return "".join(found)

    def add(self, position: int, bracket: str) -> bool:
        """Add a bracket; return False if it closes another kind than the one that is open."""
        state = self._states[-1]
        if bracket in CLOSING:
            key = state, CLOSING[bracket]
            if key not in self._known:
                self._known[key] = len(self._parents)
                self._parents.append(key)
            state = self._known[key]
        else:
            state, expected = self._parents[state]
            if expected != bracket:
                return False
        self._positions.append(position)
        self._states.append(state)
        return True

    def find_end(self, length: int) -> int:
        """Return the length of the longest prefix up to `length` that has the same open brackets as the whole text."""
        index = bisect_right(self._positions, length - 1) - 1
        while index >= 0 and self._states[index] != self._states[-1]:
            length = self._positions[index]
            index -= 1
        return length


MAX_JOINED_CHARS = 16_384
JOIN_S = 0.05


async def join_argument_chunks(chunks: AsyncIterator[ChatGenerationChunk]) -> AsyncIterator[ChatGenerationChunk]:
    """Yield the chunks of a reply with the pieces of tool arguments that arrive in quick succession joined.

    LangChain merges all chunks of a reply at its end, in one go: thousands of pieces hold the event loop.
    """
    first: ChatGenerationChunk | None = None
    pieces: list[str] = []
    size, until = 0, 0.0
    async for chunk in chunks:
        piece = find_only_arguments(chunk)
        if first is not None and (piece is None or piece["index"] != get_call_chunk(first)["index"]):
            yield join_pieces(first, pieces)
            first = None
        if piece is None:
            yield chunk
            continue
        if first is None:
            first, pieces, size, until = chunk, [], 0, time.monotonic() + JOIN_S
        pieces.append(piece["args"] or "")
        size += len(pieces[-1])
        if size >= MAX_JOINED_CHARS or time.monotonic() >= until:
            yield join_pieces(first, pieces)
            first = None
    if first is not None:
        yield join_pieces(first, pieces)


def find_only_arguments(chunk: ChatGenerationChunk) -> ToolCallChunk | None:
    """Return the tool call of a chunk that has nothing but a piece of its arguments."""
    message = chunk.message
    if not isinstance(message, AIMessageChunk) or len(message.tool_call_chunks) != 1 or chunk.generation_info:
        return None
    if message.content or message.additional_kwargs or message.usage_metadata or message.chunk_position:
        return None
    call = message.tool_call_chunks[0]
    return None if call["name"] or call["id"] else call


def get_call_chunk(chunk: ChatGenerationChunk) -> ToolCallChunk:
    """Return the tool call of a chunk that has one."""
    assert isinstance(chunk.message, AIMessageChunk)
    return chunk.message.tool_call_chunks[0]


def join_pieces(first: ChatGenerationChunk, pieces: list[str]) -> ChatGenerationChunk:
    """Return a chunk like `first` with all pieces of the arguments."""
    if len(pieces) == 1:
        return first
    message, call = first.message, get_call_chunk(first)
    joined = AIMessageChunk(
        content=message.content,
        id=message.id,
        name=message.name,
        response_metadata=message.response_metadata,
        tool_call_chunks=[{**call, "args": "".join(pieces)}],
    )
    return ChatGenerationChunk(message=joined)
