"""What is kept of a run besides its events, in the transaction that ends it."""

from collections.abc import Sequence

from sqlalchemy import Connection

from deerflow.domain.runs import RunRecord
from deerflow.domain.search import LeftBehind, SaidMessage
from deerflow.domain.usage import UsageEntry, UsageOrigin
from deerflow.persistence.search import index_run
from deerflow.persistence.usage import record_usage


def close_run(
    connection: Connection,
    run: RunRecord,
    origin: UsageOrigin,
    entries: Sequence[UsageEntry],
    said: Sequence[SaidMessage],
    left: LeftBehind | None,
) -> None:
    """Keep what a run took and what it said."""
    record_usage(connection, origin, entries)
    index_run(connection, run, said, left)
