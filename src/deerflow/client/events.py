"""Events of a run as the client reports them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from deerflow.domain.errors import RunFailed
from deerflow.domain.runs import RunEvent
from deerflow.runtime.journal.state_diff import DerivedState

MESSAGE_TYPES = {"AIMessageChunk": "ai"}
CLARIFICATION_TOOL = "ask_clarification"
"""Tool whose result is shown to the user: it ends the run in place of an answer."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Event of a run.

    `messages-tuple`: a chunk of an answer, or a whole tool result. `values`: the thread state after a step
    (`messages`, `title`, `artifacts` …). `custom`: a report of a tool or middleware. `end`: the run has ended;
    `data["usage"]` counts its tokens.
    """

    type: Literal["messages-tuple", "values", "custom", "end"]
    data: Mapping[str, Any]


class RunEventReader:
    """Converts the logged events of one run to events of the client, and collects the answer."""

    def __init__(self) -> None:
        self.answer = ""
        self._state = DerivedState()
        self._earlier_ids: frozenset[str] = frozenset()
        self._usage: dict[str, Mapping[str, int]] = {}
        self._failure: str | None = None

    def begin(self, before: DerivedState) -> None:
        """Start from `before`, the thread state when the run began."""
        self._state = before
        self._earlier_ids = frozenset(before.message_ids)

    def read(self, logged: RunEvent) -> StreamEvent | None:
        """Return the event of the client for a logged event, or None if there is none.

        Raises:
            RunFailed: the run has failed.
        """
        match logged.event:
            case "messages":
                chunk = orjson.loads(logged.data)[0]
                return StreamEvent("messages-tuple", {**chunk, "type": MESSAGE_TYPES.get(chunk["type"], chunk["type"])})
            case "changes":
                self._collect(orjson.loads(logged.data)["messages"])
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
                return StreamEvent("end", {"usage": self._total_usage()})
            case _:
                return None

    def _collect(self, messages: Sequence[dict[str, Any]]) -> None:
        for message in messages:
            if message["id"] in self._earlier_ids:
                continue
            if usage := message.get("usage_metadata"):
                self._usage[message["id"]] = usage
            if message["content"] and (message["type"] == "ai" or message["name"] == CLARIFICATION_TOOL):
                self.answer = extract_text(message["content"])

    def _total_usage(self) -> dict[str, int]:
        kinds = ("input_tokens", "output_tokens", "total_tokens")
        return {kind: sum(usage.get(kind, 0) for usage in self._usage.values()) for kind in kinds}


def extract_text(content: str | list[dict[str, Any] | str]) -> str:
    """Return the text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "".join(block if isinstance(block, str) else block.get("text", "") for block in content)
