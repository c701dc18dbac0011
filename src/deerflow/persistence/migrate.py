"""Brings a database to the newest version of the tables."""

from pathlib import Path

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.util import CommandError
from sqlalchemy import Engine

from deerflow.domain.errors import ConfigError
from deerflow.persistence.schema import stored_version


def upgrade(engine: Engine) -> None:
    """Run the migrations `engine`'s database lacks.

    Raises:
        ConfigError: it has one that this program does not know.
    """
    with engine.connect() as connection:
        found = stored_version(connection)
    with engine.begin() as connection:
        settings = AlembicConfig(attributes={"connection": connection})
        settings.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        try:
            command.upgrade(settings, "head")
        except CommandError as problem:
            raise ConfigError(
                f"database {engine.url.database!r} has version {found!r}, which this DeerFlow does not know; "
                "it was written by a newer one: upgrade DeerFlow, or point DEER_FLOW_HOME elsewhere"
            ) from problem
