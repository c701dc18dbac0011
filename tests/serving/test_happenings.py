"""What protocols are told of a run."""

import pytest

from deerflow.serving.happenings import Progressed, progress_in


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("task_queued", "waits for its turn"),
        ("task_started", "begins"),
        ("task_completed", "is done"),
        ("task_failed", "has failed"),
        ("task_timed_out", "took too long"),
        ("task_cancelled", "was stopped"),
    ],
)
def test_the_beginning_and_every_end_of_a_task_are_told(kind: str, words: str) -> None:
    told = list(progress_in({"type": kind, "task_id": "c1", "description": "Look"}))
    assert told == [Progressed("c1", f"Look: {words}\n")]
    assert list(progress_in({"type": "task_running", "task_id": "c1"})) == []
