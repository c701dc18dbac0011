"""What a program hears of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from deerflow.domain.errors import RunFailed
from deerflow.domain.events import StreamEvent as LoggedEvent
from deerflow.runtime.changes import DerivedState

PIECES = {"AIMessageChunk": "ai"}
QUESTION = "ask_clarification"
"""The tool whose result is meant for the user: it ends the run in place of an answer."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One thing that happened in a run.

    `messages-tuple`: a piece of an answer, or a whole tool result. `values`: the thread after a step (`messages`,
    `title`, `artifacts` …). `custom`: what a tool or middleware reports. `end`: the run is over; `data["usage"]` counts
    its tokens.
    """

    type: Literal["messages-tuple", "values", "custom", "end"]
    data: Mapping[str, Any]


class Reader:
    """Turns the logged events of one run into those of the client."""

    def __init__(self) -> None:
        self.answer = ""
        self._state = DerivedState()
        self._old: frozenset[str] = frozenset()
        self._usage: dict[str, Mapping[str, int]] = {}
        self._failure: str | None = None

    def begin(self, before: DerivedState) -> None:
        """Take `before` as what the thread was when the run began."""
        self._state = before
        self._old = frozenset(before.message_ids)

    def read(self, logged: LoggedEvent) -> StreamEvent | None:
        """What the event means to the caller; None when it means nothing.

        Raises:
            RunFailed: the run has ended, and failed.
        """
        match logged.event:
            case "messages":
                piece = orjson.loads(logged.data)[0]
                return StreamEvent("messages-tuple", {**piece, "type": PIECES.get(piece["type"], piece["type"])})
            case "changes":
                self._take_in(orjson.loads(logged.data)["messages"])
                self._state.apply(logged.data)
                return StreamEvent("values", orjson.loads(self._state.to_json()))
            case "custom":
                return StreamEvent("custom", orjson.loads(logged.data))
            case "error":
                self._failure = orjson.loads(logged.data)["message"]
                return None
            case "end" if self._failure is not None:
                raise RunFailed(self._failure)
            case "end":
                return StreamEvent("end", {"usage": self._total()})
            case _:
                return None

    def _take_in(self, messages: Sequence[dict[str, Any]]) -> None:
        for message in messages:
            if message["id"] in self._old:
                continue
            if usage := message.get("usage_metadata"):
                self._usage[message["id"]] = usage
            if message["content"] and (message["type"] == "ai" or message["name"] == QUESTION):
                self.answer = text_of(message["content"])

    def _total(self) -> dict[str, int]:
        kinds = ("input_tokens", "output_tokens", "total_tokens")
        return {kind: sum(usage.get(kind, 0) for usage in self._usage.values()) for kind in kinds}


def text_of(content: str | list[dict[str, Any] | str]) -> str:
    """The text of a message's content, whatever its form."""
    if isinstance(content, str):
        return content
    return "".join(block if isinstance(block, str) else block.get("text", "") for block in content)
