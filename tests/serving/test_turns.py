"""What protocols are events of a run."""

import pytest

from deerflow.serving.turns import ToolProgressed, read_progress


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("task_queued", "waits for its turn"),
        ("task_started", "begins"),
        ("task_completed", "is done"),
        ("task_failed", "has failed"),
        ("task_timed_out", "took too long"),
        ("task_cancelled", "was stopped"),
    ],
)
def test_reports_start_and_end_of_tasks(kind: str, text: str) -> None:
    events = list(read_progress({"type": kind, "task_id": "c1", "description": "Look"}))
    assert events == [ToolProgressed("c1", f"Look: {text}\n")]
    assert list(read_progress({"type": "task_running", "task_id": "c1"})) == []
