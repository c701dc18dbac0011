"""Turns of a scripted model or server, as plain data."""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call of an answer. `arguments` is JSON text and may be malformed on purpose."""

    name: str
    arguments: str = "{}"
    id: str | None = None  # assigned by the turn if missing


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage reported for an answer."""

    input_tokens: int = 10
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply of the model: reasoning first, then text, then tool calls.

    `text` and `reasoning` are split into words, or sent chunk by chunk if given as tuples.
    """

    text: str | tuple[str, ...] = ""
    reasoning: str | tuple[str, ...] = ""
    calls: tuple[ToolRequest, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    delay_s: float = 0.0

    def chunks(self) -> list["AnswerChunk"]:
        """Return the answer as the chunks of a stream."""
        return [
            *(AnswerChunk("reasoning", text) for text in _tokens(self.reasoning)),
            *(AnswerChunk("text", text) for text in _tokens(self.text)),
            *(chunk for index, call in enumerate(self.calls) for chunk in _split_call(index, call)),
        ]

    def with_call_ids(self, turn: int) -> "Answer":
        """Return the answer with tool call ids that are unique to the turn."""
        if all(call.id for call in self.calls):
            return self
        calls = (replace(call, id=call.id or f"call_{turn}_{index}") for index, call in enumerate(self.calls))
        return replace(self, calls=tuple(calls))

    @property
    def full_text(self) -> str:
        return "".join(self.text)

    @property
    def full_reasoning(self) -> str:
        return "".join(self.reasoning)

    @property
    def effective_finish_reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    @property
    def effective_usage(self) -> Usage:
        return self.usage or Usage(output_tokens=len(self.chunks()))


@dataclass(frozen=True, slots=True)
class AnswerChunk:
    """One chunk of a streamed answer. A tool call starts with its name, followed by its arguments."""

    kind: Literal["reasoning", "text", "call"]
    text: str
    index: int = 0
    name: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """Streams `after`, then waits until it is released."""

    after: Answer = Answer()


@dataclass(frozen=True, slots=True)
class RateLimited:
    """HTTP 429. `retry_after` is the value of the header: seconds or an HTTP date."""

    retry_after: str | float | None = None
    message: str = "rate limit reached"


@dataclass(frozen=True, slots=True)
class ServerFault:
    """An HTTP error in the format of the OpenAI API."""

    status: int = 500
    message: str = "the server had an error"
    code: str | None = None


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Streams `chunks` chunks of `answer` and half of the next, then closes the connection."""

    chunks: int
    answer: Answer = Answer("one two three four five")


@dataclass(frozen=True, slots=True)
class Raw:
    """Raw response bytes, one write each."""

    writes: tuple[bytes, ...]
    status: int = 200
    content_type: str = "text/event-stream"


def calling(name: str, /, **arguments: Any) -> Answer:
    """Return an answer that calls one tool."""
    return Answer(calls=(ToolRequest(name, orjson.dumps(arguments).decode()),))


def in_parallel(*answers: Answer) -> Answer:
    """Return one answer with the calls of all `answers`."""
    return Answer(calls=tuple(call for answer in answers for call in answer.calls))


def thinking(reasoning: str, /, then: str | Answer = "") -> Answer:
    """Return an answer with reasoning."""
    answer = Answer(then) if isinstance(then, str) else then
    return replace(answer, reasoning=reasoning)


def _tokens(text: str | tuple[str, ...]) -> tuple[str, ...] | list[str]:
    return text if isinstance(text, tuple) else re.findall(r"\s*\S+|\s+", text)


def _split_call(index: int, call: ToolRequest) -> list[AnswerChunk]:
    """Return the chunks of a call: the name, then the arguments in up to three parts, as vendors do."""
    size = max(1, -(-len(call.arguments) // 3))
    parts = [call.arguments[at : at + size] for at in range(0, len(call.arguments), size)]
    return [AnswerChunk("call", "", index, call.name, call.id), *(AnswerChunk("call", part, index) for part in parts)]
