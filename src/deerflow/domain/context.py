"""What one run carries to every middleware and tool."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run a piece of work belongs to."""

    thread_id: str
    run_id: str
    user_id: str
