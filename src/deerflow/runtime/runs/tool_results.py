"""What the tools of a run have answered, counted once."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.tracing.metrics import Metrics

UNKNOWN = "unknown"


@dataclass(slots=True)
class ToolResults:
    """The messages of tools in one attempt at a run, each as it was last."""

    _messages: dict[str, ToolMessage] = field(default_factory=dict)

    def add(self, messages: Iterable[BaseMessage]) -> None:
        """Take in what is new or has changed."""
        for message in messages:
            if isinstance(message, ToolMessage) and message.id is not None:
                self._messages[message.id] = message

    def count_in(self, metrics: Metrics) -> None:
        """Have all of it counted."""
        for message in self._messages.values():
            metrics.count_tool_call(message.name or UNKNOWN, message.status)
