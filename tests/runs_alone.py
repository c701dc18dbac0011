"""A run without a runtime: what tools and middlewares need of one, on real files."""

from collections.abc import Sequence
from pathlib import Path

from deerflow.domain.context import RunContext
from deerflow.domain.threads import HistoryMessage
from deerflow.sandbox.files.files import thread_files
from deerflow.sandbox.files.mounts import user_data_folder


class NothingSaid:
    """The journal of a thread in which nothing was said yet."""

    async def search(self, query: str, limit: int) -> Sequence[HistoryMessage]:
        return []


def run_in(home: Path, agent_name: str | None = None) -> RunContext:
    """A run of the local user in thread `t1`, whose files are below `home`."""
    files = thread_files(user_data_folder(home, "local", "t1"))
    return RunContext("t1", "r1", "local", files, NothingSaid(), agent_name)
