"""What the terminal says of subagents, in one line each."""

from typing import Any

import pytest

from deerflow.cli.tasks import line_of

ABOUT: dict[str, Any] = {"task_id": "c1", "description": "Read\nall", "usage": {"total_tokens": 7}, "duration_s": 1.25}
COUNTS = {"total": 100, "done": 40, "outcomes": {"completed": 30, "capped": 5, "failed": 4, "skipped": 1}}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "task_queued"}, "[Read all] waits for its turn"),
        ({"type": "task_completed", "stop_reason": None}, "[Read all] is done after 1.2 s, 7 tokens"),
        (
            {"type": "task_completed", "stop_reason": "turn_capped"},
            "[Read all] is cut short (turn_capped) after 1.2 s, 7 tokens",
        ),
        ({"type": "task_failed", "error": "no\r\n\tkey"}, "[Read all] failed: no key"),
        ({"type": "task_timed_out", "error": "it took long"}, "[Read all] took too long: it took long"),
        ({"type": "task_cancelled", "error": "stop"}, "[Read all] was stopped: stop"),
        ({"type": "batch_progress", **COUNTS}, "[Read all] 40 of 100 done, 5 of them failed"),
        ({"type": "batch_cancelled", **COUNTS, "outcomes": {}}, "[Read all] was stopped, 40 of 100 done"),
        ({"type": "task_running", "message": {"type": "ai", "tool_calls": []}}, None),
        ({"type": "task_unheard_of"}, None),
    ],
)
def test_everything_that_happens_to_a_task_is_one_line(event: dict[str, Any], line: str | None) -> None:
    assert line_of({**ABOUT, **event}) == line
