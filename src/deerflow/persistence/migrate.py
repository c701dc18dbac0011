"""Brings a database to the newest version of the tables."""

from pathlib import Path
from threading import Lock

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.util import CommandError
from sqlalchemy import Engine

from deerflow.domain.errors import ConfigError
from deerflow.persistence.schema import stored_version

MIGRATING = 0xDEE7F10
"""The lock that whoever changes the tables of a PostgreSQL database holds."""
ONE_AT_A_TIME = Lock()
"""Alembic's `op` belongs to the whole process: two migrations at once write into each other's databases."""


def upgrade(engine: Engine) -> None:
    """Run the migrations `engine`'s database lacks.

    Raises:
        ConfigError: it has one that this program does not know.
    """
    with engine.connect() as connection:
        found = stored_version(connection)
    with ONE_AT_A_TIME, engine.begin() as connection:
        if engine.dialect.name == "postgresql":  # SQLite has but one writer, here two servers may start at once
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATING})")
        settings = AlembicConfig(attributes={"connection": connection})
        settings.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        try:
            command.upgrade(settings, "head")
        except CommandError as problem:
            raise ConfigError(
                f"database {engine.url.database!r} has version {found!r}, which this DeerFlow does not know; "
                "it was written by a newer one: upgrade DeerFlow, or point database.url or DEER_FLOW_HOME elsewhere"
            ) from problem
