"""What subagents do, in lines for a terminal."""

from collections.abc import Mapping
from typing import Any

GOOD_ENDS = frozenset({"completed", "capped"})
ENDED_BADLY = {"task_failed": "failed", "task_timed_out": "took too long", "task_cancelled": "was stopped"}
LONGEST = 160


def line_of(event: Mapping[str, Any]) -> str | None:
    """A line for a custom event about a task or a batch; None when it is about something else, or says nothing new."""
    said = _task(event) if "task_id" in event else None
    # In one line, whatever a model calls its tasks, or an endpoint says of its errors.
    return " ".join(f"[{event.get('description') or event['task_id']}] {said}".split())[:LONGEST] if said else None


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
            ended = f"is cut short ({event['stop_reason']})" if event.get("stop_reason") else "is done"
            return f"{ended} after {event['duration_s']:.1f} s, {event['usage']['total_tokens']} tokens"
        case "task_failed" | "task_timed_out" | "task_cancelled" as kind:
            return f"{ENDED_BADLY[kind]}: {event.get('error')}"
        case "batch_started" | "batch_progress" | "batch_completed":
            return progress(event)
        case "batch_cancelled":
            return f"was stopped, {progress(event)}"
    return None


def progress(event: Mapping[str, Any]) -> str:
    """How far a batch is, and how much of it went wrong."""
    counts = event.get("outcomes") or {}
    failed = sum(count for outcome, count in counts.items() if outcome not in GOOD_ENDS)
    return f"{event['done']} of {event['total']} done" + (f", {failed} of them failed" if failed else "")
