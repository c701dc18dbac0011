"""The interface of a database. Functions of a `Connection` run outside the event loop."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, OperationalError

from deerflow.domain.errors import InvalidRequest, StorageUnavailable
from deerflow.persistence.queries.events import LoggedEvent

T = TypeVar("T")
DatabaseLocation = Path | str
"""Path of a SQLite file, or URL of a PostgreSQL database."""


class Database(Protocol):
    """Database of one server. Writes survive a power failure; appends, which are frequent, may not."""

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` and return its result."""

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run `change` in one transaction; it is committed when this returns."""

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        """Add events to the logs of their runs.

        Return the ids of runs whose events were refused because another process has taken the run over.
        """

    async def aclose(self) -> None:
        """Commit pending writes, then close the database."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise driver errors as `InvalidRequest` (unsupported value) or `StorageUnavailable` (database unusable)."""
    try:
        yield
    except (DataError, OverflowError) as problem:  # a null character in a text, a number too large for a column
        raise InvalidRequest("the database cannot store or compare such a value") from problem
    except DBAPIError as problem:
        if not isinstance(problem, OperationalError) and not problem.connection_invalidated:
            raise
        raise StorageUnavailable(f"database unavailable: {problem.orig}") from problem
