"""What a program hears of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from deerflow.domain.errors import RunFailed
from deerflow.domain.events import StreamEvent as LoggedEvent


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One thing that happened in a run.

    `messages-tuple`: a piece of a message, or a whole tool result. `values`: what a step changed in the thread.
    `custom`: what a tool or middleware reports. `end`: the run is over; `data["usage"]` counts its tokens.
    """

    type: Literal["messages-tuple", "values", "custom", "end"]
    data: Mapping[str, Any]


@dataclass(slots=True)
class Reader:
    """Turns logged events into those of the client, and adds up what the run used."""

    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("input_tokens", "output_tokens"), 0))
    failure: str | None = None

    def read(self, logged: LoggedEvent) -> StreamEvent | None:
        """What the event means to the caller; None when it means nothing.

        Raises:
            RunFailed: the run has ended, and failed.
        """
        data = orjson.loads(logged.data)
        match logged.event:
            case "messages":
                return StreamEvent("messages-tuple", data[0])
            case "changes":
                self._count(data["messages"])
                return StreamEvent("values", {**data["values"], "messages": data["messages"]})
            case "custom":
                return StreamEvent("custom", data)
            case "error":
                self.failure = data["message"]
                return None
            case "end" if self.failure is not None:
                raise RunFailed(self.failure)
            case "end":
                return StreamEvent("end", {"usage": {**self.usage, "total_tokens": sum(self.usage.values())}})
            case _:
                return None

    def _count(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            for kind in self.usage:
                self.usage[kind] += (message.get("usage_metadata") or {}).get(kind, 0)


def last_answer(messages: Sequence[dict[str, Any]]) -> str:
    """The text of the last thing the agent said among `messages`."""
    for message in reversed(messages):
        if message["type"] == "ai" and message["content"]:
            return text_of(message["content"])
    return ""


def text_of(content: str | list[dict[str, Any] | str]) -> str:
    """The text of a message's content, whatever its form."""
    if isinstance(content, str):
        return content
    return "".join(block if isinstance(block, str) else block.get("text", "") for block in content)
