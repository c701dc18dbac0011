"""What a run has asked of models and tools, counted once."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from deerflow.tracing.metrics import Metrics

UNKNOWN = "unknown"


@dataclass(slots=True)
class Tally:
    """The messages of models and tools in one attempt at a run, each as it was last."""

    _messages: dict[str, AIMessage | ToolMessage] = field(default_factory=dict)

    def add(self, messages: Iterable[BaseMessage]) -> None:
        """Take in what is new or has changed."""
        for message in messages:
            if isinstance(message, AIMessage | ToolMessage) and message.id is not None:
                self._messages[message.id] = message

    def count_in(self, metrics: Metrics) -> None:
        """Have all of it counted."""
        for message in self._messages.values():
            if isinstance(message, ToolMessage):
                metrics.count_tool_call(message.name or UNKNOWN, message.status)
            elif usage := message.usage_metadata:
                model = str(message.response_metadata.get("model_name", UNKNOWN))
                metrics.count_model_call(model, usage["input_tokens"], usage["output_tokens"])
