"""What one run carries to every middleware and tool."""

from dataclasses import dataclass

from deerflow.domain.files import ThreadFiles
from deerflow.domain.history import ThreadHistory


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run a piece of work belongs to, and what it may use. A graph used bare, without our runtime, has none."""

    thread_id: str
    run_id: str
    user_id: str
    files: ThreadFiles
    history: ThreadHistory
    agent_name: str | None = None
