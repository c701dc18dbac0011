"""One database, whichever it is: functions of a `Connection` are carried out off the event loop."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar, cast

from sqlalchemy import Connection

from deerflow.config.imports import load_extra
from deerflow.persistence.events import LoggedEvent
from deerflow.persistence.sqlite import open_sqlite

T = TypeVar("T")
Place = Path | str
"""A SQLite file, or the URL of a PostgreSQL database."""


class Database(Protocol):
    """Writes are kept through a power failure; appends, which are many, perhaps not."""

    async def read(self, query: Callable[[Connection], T]) -> T:
        """What `query` finds."""

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Carry out `change`, whole or not at all; it is committed when this returns."""

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        """Add events to their runs' logs. Those of the runs it returns were refused: they are another process's now."""

    async def aclose(self) -> None:
        """Commit what is waiting, then let go of the database."""


def open_database(place: Place) -> AbstractAsyncContextManager[Database]:
    """The database at `place`, made or brought up to date first.

    Raises:
        ConfigError: it was written by a newer version of this program, or it cannot be reached.
    """
    if isinstance(place, Path):
        return open_sqlite(place)
    opener = load_extra("deerflow.persistence.postgres:open_postgres", "postgres", "database.url")
    return cast(Callable[[str], AbstractAsyncContextManager[Database]], opener)(place)
