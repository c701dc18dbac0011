"""Database engines, connections and migrations."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from deerflow.config.imports import require_extra
from deerflow.persistence.engine.database import Database, DatabaseLocation
from deerflow.persistence.engine.sqlite import open_sqlite


def open_database(location: DatabaseLocation) -> AbstractAsyncContextManager[Database]:
    """Open the database at `location`; create its tables or migrate them first.

    Raises:
        ConfigError: The database was written by a newer version of this program, or cannot be reached.
    """
    if isinstance(location, Path):
        return open_sqlite(location)
    with require_extra("postgres", "database.url"):
        from deerflow.persistence.engine.postgres import open_postgres
    return open_postgres(location)
