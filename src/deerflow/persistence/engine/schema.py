"""Schema version of a database, its migration to the newest one, and the id by which a server recognizes it."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, Engine, Index, MetaData, inspect, select, text

from deerflow.domain.errors import ConfigError, StorageUnavailable
from deerflow.domain.identity import new_id
from deerflow.persistence.tables import installation, metadata, runs

SCHEMA_VERSION = "0029"
"""Newest file in `migrations/versions`."""
SQLITE_SCHEMA = Path(__file__).parents[1] / "migrations" / "sqlite.sql"
"""Statements that create all tables in an empty SQLite file. `make snapshots` writes it from the migrations."""
STATEMENT_END = ";\n\n"
MIGRATION_LOCK_ID = 0xDEE7F10
"""Advisory lock of PostgreSQL that is held during a migration."""
MIGRATION_LOCK = Lock()
"""Alembic's `op` is global to the process: two concurrent migrations would write into each other's databases."""


def migrate(engine: Engine) -> None:
    """Migrate the database of `engine` unless it is at `SCHEMA_VERSION`.

    Raises:
        ConfigError: The database has a version that this program does not know.
    """
    with engine.connect() as connection:
        found = read_version(connection)
    if found == SCHEMA_VERSION or (found is None and engine.dialect.name == "sqlite" and create_tables(engine)):
        return
    # Alembic takes a tenth of a second to import, and a database is nearly always up to date.
    from alembic import command
    from alembic.config import Config as AlembicConfig
    from alembic.util import CommandError

    with MIGRATION_LOCK, engine.begin() as connection:
        if engine.dialect.name == "postgresql":  # two servers may start at once; SQLite has one writer anyway
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK_ID})")
        settings = AlembicConfig(attributes={"connection": connection})
        settings.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
        try:
            command.upgrade(settings, "head")
        except CommandError as problem:
            raise ConfigError(
                f"database {engine.url.database!r} has unknown schema version {found!r}: it was written by a newer "
                "DeerFlow; upgrade DeerFlow, or set database.url or DEER_FLOW_HOME to another database"
            ) from problem


def create_tables(engine: Engine) -> bool:
    """Create all tables in an empty SQLite file as the migrations would, and return whether it was empty.

    Alembic and what it loads would take 10 MB of a server for as long as it runs.
    """
    statements = SQLITE_SCHEMA.read_text().split(STATEMENT_END)
    with MIGRATION_LOCK, engine.begin() as connection:
        if inspect(connection).get_table_names():  # by another process meanwhile
            return False
        for statement in filter(None, map(str.strip, statements)):
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (SCHEMA_VERSION,))
        connection.execute(installation.insert().values(database_id=new_id()))
    return True


def read_version(connection: Connection) -> str | None:
    """Return the schema version of the database, None when it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()


def read_database_id(connection: Connection) -> str | None:
    """Return the id of the database, None when it has none yet."""
    if not inspect(connection).has_table(installation.name):
        return None
    return connection.execute(select(installation.c.database_id)).scalar()


@dataclass(frozen=True, slots=True)
class IdFile:
    """File that holds the id of a database outside of it.

    A database that is missing, empty or another one is then not taken for a new installation.
    """

    path: Path
    database: str
    """Name of the database in error messages."""

    def read(self) -> str | None:
        """Return the id, None before the first start."""
        try:
            return self.path.read_text().strip() or None
        except FileNotFoundError:
            return None

    def check(self, found: str | None) -> None:
        """Compare the id of the database that was found.

        Raises:
            ConfigError: It is not the database that was used before.
        """
        expected = self.read()
        if expected is None or found == expected:
            return
        state = "is missing, empty or too old" if found is None else f"is another one (its id is {found})"
        raise ConfigError(
            f"database {self.database} {state}; the one used before has id {expected}. Nothing was changed. "
            f"Restore it, or delete {str(self.path)!r} to continue with the database that is there"
        )

    def write(self, database_id: str) -> None:
        """Store the id, unless it is stored already."""
        if self.read() == database_id:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{new_id()}")
        draft.write_text(f"{database_id}\n")
        draft.replace(self.path)


def locate_id_file(database: Path) -> IdFile:
    """Return the id file of a SQLite file, which is next to it."""
    return IdFile(database.with_name(f"{database.name}.id"), repr(str(database)))


@cache
def load_full_metadata() -> MetaData:
    """Return the metadata of all tables with their partial indexes.

    Declaring a partial index loads both dialects of SQLAlchemy, megabytes that a running server does not need. Only
    migrations and tests call this.
    """
    running, active = text("status = 'running'"), text("status IN ('pending', 'running')")
    # At most one run of a thread is active at a time; the database itself refuses a second one.
    Index("ix_runs_running_thread_id", runs.c.thread_id, unique=True, sqlite_where=running, postgresql_where=running)
    # Unfinished runs are few among many.
    Index("ix_runs_active_process", runs.c.process, sqlite_where=active, postgresql_where=active)
    return metadata


class DatabaseFile:
    """Database file with open connections, which would go on writing after it was moved away or replaced."""

    def __init__(self, file: Path) -> None:
        self._files = ((file, False), (file.with_name(f"{file.name}-wal"), True))
        self._known: dict[Path, tuple[int, int]] = {}

    def check(self) -> None:
        """Compare the file and its write-ahead log with those that were found before.

        Raises:
            StorageUnavailable: One of them is missing, empty or another file: what is written now would be lost.
        """
        for path, may_be_empty in self._files:
            try:
                found = path.stat()
                identity = (found.st_dev, found.st_ino) if found.st_size or may_be_empty else None
            except OSError:
                identity = None
            known = self._known.get(path)
            if known is None and identity is not None:
                self._known[path] = identity
            elif identity != known:
                raise StorageUnavailable(
                    f"database file {str(path)!r} was moved, deleted, emptied or replaced while it was in use; "
                    "nothing more is written: put it back, or stop the server and restore a backup"
                )
