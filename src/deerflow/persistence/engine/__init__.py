"""Database engines, connections and migrations."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from deerflow.config.imports import require_extra
from deerflow.persistence.engine.database import Database, DatabaseLocation
from deerflow.persistence.engine.sqlite import open_sqlite


def open_database(location: DatabaseLocation, home: Path | None = None) -> AbstractAsyncContextManager[Database]:
    """Open the database at `location`; create its tables or migrate them first.

    Args:
        location: SQLite file or URL of a PostgreSQL database.
        home: State directory in which the id of a PostgreSQL database is kept.

    Raises:
        ConfigError: The database is not the one used before, was written by a newer version of this program, or cannot
            be reached.
        StorageUnavailable: The file is damaged or cannot be written.
    """
    if isinstance(location, Path):
        return open_sqlite(location)
    with require_extra("postgres", "database.url"):
        from deerflow.persistence.engine.postgres import open_postgres
    return open_postgres(location, home=home)
