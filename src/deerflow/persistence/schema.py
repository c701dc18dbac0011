"""Which version of the tables a database has, and how it gets to ours."""

from collections.abc import Callable
from typing import cast

from sqlalchemy import Connection, Engine, inspect

from deerflow.config.imports import load_object

SCHEMA_VERSION = "0012"
"""The newest file in `migrations/versions`."""


def bring_up_to_date(engine: Engine) -> None:
    """Migrate the database if it is not at `SCHEMA_VERSION`."""
    with engine.connect() as connection:
        if stored_version(connection) == SCHEMA_VERSION:
            return
    # Alembic costs a tenth of a second to import, and a database is nearly always up to date.
    upgrade = cast(Callable[[Engine], None], load_object("deerflow.persistence.migrate:upgrade"))
    upgrade(engine)


def stored_version(connection: Connection) -> str | None:
    """The version the database says it has, None when it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
