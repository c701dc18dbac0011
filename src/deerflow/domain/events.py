"""What a run tells its readers."""

from dataclasses import dataclass
from typing import Literal

EventName = Literal[
    "metadata",
    "messages",
    "changes",
    "custom",
    "updates",
    "checkpoints",
    "tasks",
    "debug",
    "subgraph",
    "error",
    "end",
    "tool_intent",
    "tool_outcome",
    "steered",
    "usage",
    "budget",
    "batch_item",
]

FINAL_EVENT: EventName = "end"
"""Every run's log ends with exactly one of these."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One entry of a run's log. `seq` counts from 1 without gaps; `data` is JSON."""

    seq: int
    event: EventName
    data: bytes
