"""What a scripted model or server can answer, as plain data."""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One tool call of an answer; `arguments` is JSON text and may be malformed on purpose."""

    name: str
    arguments: str = "{}"
    id: str | None = None  # given by the turn when absent


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer is said to have cost."""

    input_tokens: int = 10
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply of the model: reasoning first, then text, then tool calls.

    `text` and `reasoning` are split into words, or sent piece by piece when given as tuples.
    """

    text: str | tuple[str, ...] = ""
    reasoning: str | tuple[str, ...] = ""
    calls: tuple[ToolRequest, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    delay_s: float = 0.0

    def pieces(self) -> list["Piece"]:
        """The answer as a model would stream it."""
        return [
            *(Piece("reasoning", text) for text in _tokens(self.reasoning)),
            *(Piece("text", text) for text in _tokens(self.text)),
            *(piece for index, call in enumerate(self.calls) for piece in _call_pieces(index, call)),
        ]

    def with_call_ids(self, turn: int) -> "Answer":
        """The same answer whose calls have ids no other turn has."""
        if all(call.id for call in self.calls):
            return self
        calls = (replace(call, id=call.id or f"call_{turn}_{index}") for index, call in enumerate(self.calls))
        return replace(self, calls=tuple(calls))

    @property
    def whole_text(self) -> str:
        return "".join(self.text)

    @property
    def whole_reasoning(self) -> str:
        return "".join(self.reasoning)

    @property
    def reason_to_stop(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    @property
    def cost(self) -> Usage:
        return self.usage or Usage(output_tokens=len(self.pieces()))


@dataclass(frozen=True, slots=True)
class Piece:
    """One step of a streamed answer; a call begins with its name and goes on with its arguments."""

    kind: Literal["reasoning", "text", "call"]
    text: str
    index: int = 0
    name: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """Streams `after`, then says nothing until it is released."""

    after: Answer = Answer()


@dataclass(frozen=True, slots=True)
class RateLimited:
    """HTTP 429; `retry_after` is the header as sent: seconds or an HTTP date."""

    retry_after: str | float | None = None
    message: str = "rate limit reached"


@dataclass(frozen=True, slots=True)
class ServerFault:
    """An HTTP error in the shape of the OpenAI API."""

    status: int = 500
    message: str = "the server had an error"


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Streams `pieces` pieces of `answer`, half of the next, and closes the connection."""

    pieces: int
    answer: Answer = Answer("one two three four five")


@dataclass(frozen=True, slots=True)
class Raw:
    """Exactly these bytes, one write each."""

    writes: tuple[bytes, ...]
    status: int = 200
    content_type: str = "text/event-stream"


def calling(name: str, /, **arguments: Any) -> Answer:
    """An answer that calls one tool."""
    return Answer(calls=(ToolRequest(name, orjson.dumps(arguments).decode()),))


def in_parallel(*answers: Answer) -> Answer:
    """One answer that makes the calls of all `answers`."""
    return Answer(calls=tuple(call for answer in answers for call in answer.calls))


def thinking(reasoning: str, /, then: str | Answer = "") -> Answer:
    """An answer that is reasoned about first."""
    answer = Answer(then) if isinstance(then, str) else then
    return replace(answer, reasoning=reasoning)


def _tokens(text: str | tuple[str, ...]) -> tuple[str, ...] | list[str]:
    return text if isinstance(text, tuple) else re.findall(r"\s*\S+|\s+", text)


def _call_pieces(index: int, call: ToolRequest) -> list[Piece]:
    """The name alone, then the arguments in up to three parts, as vendors do."""
    size = max(1, -(-len(call.arguments) // 3))
    parts = [call.arguments[at : at + size] for at in range(0, len(call.arguments), size)]
    return [Piece("call", "", index, call.name, call.id), *(Piece("call", part, index) for part in parts)]
