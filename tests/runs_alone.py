"""Run context without a runtime, on real files, for tools and middlewares."""

from collections.abc import Sequence
from pathlib import Path

from deerflow.domain.context import RunContext
from deerflow.domain.threads import HistoryMessage
from deerflow.sandbox.files.files import thread_files
from deerflow.sandbox.files.mounts import user_data_folder


class EmptyHistory:
    """History of a thread without messages."""

    async def search(self, query: str, limit: int) -> Sequence[HistoryMessage]:
        return []


def run_in(home: Path, agent_name: str | None = None) -> RunContext:
    """Return the context of a run of the local user in thread `t1`, with files below `home`."""
    files = thread_files(user_data_folder(home, "local", "t1"))
    return RunContext("t1", "r1", "local", files, EmptyHistory(), agent_name)
