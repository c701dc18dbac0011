"""What subagents do, in lines for a terminal."""

from collections.abc import Mapping
from typing import Any

ENDED_BADLY = {"task_failed": "failed", "task_timed_out": "took too long", "task_cancelled": "was stopped"}
LONGEST = 160


def line_of(event: Mapping[str, Any]) -> str | None:
    """A line for a custom event about a task or a batch; None when it is about something else, or says nothing new."""
    said = _task(event) if "task_id" in event else None
    return f"[{event.get('description') or event['task_id']}] {said}"[:LONGEST] if said else None


def _task(event: Mapping[str, Any]) -> str | None:
    match event["type"]:
        case "task_queued":
            return "waits for its turn"
        case "task_started":
            return f"begins ({event.get('subagent_type')})"
        case "task_running":
            calls = event["message"].get("tool_calls") or ()
            return f"uses {', '.join(call['name'] for call in calls)}" if calls else None
        case "task_completed":
            return f"is done after {event['duration_s']:.1f} s, {event['usage']['total_tokens']} tokens"
        case "task_failed" | "task_timed_out" | "task_cancelled" as kind:
            return f"{ENDED_BADLY[kind]}: {event.get('error')}"
        case "batch_started" | "batch_progress" | "batch_completed":
            return f"{event['done']} of {event['total']} done"
        case "batch_cancelled":
            return f"was stopped, {event['done']} of {event['total']} done"
    return None
