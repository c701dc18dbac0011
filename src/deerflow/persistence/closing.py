"""What is kept of a run besides its events, in the transaction that ends it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, update
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, ProgrammingError

from deerflow.domain.runs import RunRecord
from deerflow.domain.search import LeftBehind, SaidMessage
from deerflow.domain.threads import WaitsFor
from deerflow.domain.usage import UsageEntry, UsageOrigin
from deerflow.persistence.search import index_run
from deerflow.persistence.tables import runs
from deerflow.persistence.usage import record_usage

logger = logging.getLogger(__name__)

CANNOT_BE_KEPT = (DataError, IntegrityError, InterfaceError, ProgrammingError, ValueError, OverflowError)


def close_run(
    connection: Connection,
    run: RunRecord,
    origin: UsageOrigin,
    entries: Sequence[UsageEntry],
    said: Sequence[SaidMessage],
    left: LeftBehind | None,
    waits_for: WaitsFor | None,
) -> None:
    """Keep what a run took, said and left to say. A run ends, whatever it said: what cannot be kept is left out."""
    if waits_for is not None:
        mine = (runs.c.run_id == run.run_id) & (runs.c.owner == run.owner)
        connection.execute(update(runs).where(mine), {"waits_for": waits_for})
    with sparing(connection, f"what run {run.run_id} took"):
        record_usage(connection, origin, entries)
    with sparing(connection, f"what run {run.run_id} said"):
        index_run(connection, run, said, left)


@contextmanager
def sparing(connection: Connection, what: str) -> Iterator[None]:
    """Have a part of the transaction undone alone when the database does not take what is in it."""
    try:
        with connection.begin_nested():
            yield
    except CANNOT_BE_KEPT as problem:
        logger.error("%s cannot be kept: %s", what, problem)
