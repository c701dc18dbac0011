"""Tables of threads, runs and their events."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    literal_column,
)
from sqlalchemy.types import JSON

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcTime(TypeDecorator[datetime]):
    """Time as microseconds since 1970: sortable, exact, and the same in every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else to_stored(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)


class PlainText(TypeDecorator[str]):
    """Text in which the null character, which PostgreSQL cannot store, is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value.replace("\0", "\ufffd") if value else value


ROW_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""Autoincrementing key: SQLite generates it for its own INTEGER type only."""


def to_key(name: str, limit: int = 255) -> str:
    """Return `name` as a column of `limit` characters can store it; a digest keeps long names distinct."""
    clean = name.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 64] + sha256(clean.encode()).hexdigest()


def to_stored(moment: datetime) -> int:
    """Convert a time to microseconds since 1970, as the tables store it."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def insert_or_ignore(connection: Connection, table: Table, row: Mapping[str, Any]) -> int:
    """Insert a row unless its key exists; return the number of inserted rows."""
    # Only the dialect in use is loaded: the other one takes 2 MB.
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert  # type: ignore[assignment]
    return connection.execute(insert(table).values(row).on_conflict_do_nothing()).rowcount


threads = Table(
    "threads",
    metadata,
    Column("thread_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("title", PlainText),
    Column("agent_title", PlainText),  # generated title, kept while a user's title is shown
    Column("metadata", JSON, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("project_id", String(64)),
    Column("activity", BigInteger, nullable=False, server_default="0"),  # order of the last activity of all threads
    Index("ix_threads_project_id", "project_id"),
    Index("ix_threads_activity", "activity"),
    Index("ix_threads_owner_activity", "owner", "activity"),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("owner", String(64), nullable=False),
    Column("assistant_id", PlainText, nullable=False),
    Column("status", String(16), nullable=False),
    Column("on_disconnect", String(16), nullable=False),
    Column("multitask_strategy", String(16), nullable=False),
    Column("process", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("idempotency_key", String(255)),
    Column("request_hash", String(64), nullable=False),
    Column("request", JSON, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("error", PlainText),
    Column("cancel_action", String(16)),
    Column("waits_for", String(16)),  # what the run waits for the user to do
    Column("input_tokens", BigInteger, nullable=False, server_default="0"),
    Column("output_tokens", BigInteger, nullable=False, server_default="0"),
    # Order of the runs: the clock may be set back, and those of several servers differ.
    Column("position", BigInteger, nullable=False, server_default="0"),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    # The person who has started the run in a thread that is shared with them.
    Column("started_by", String(64)),
    Index("ix_runs_position", "position"),
    Index("ix_runs_thread_id_position", "thread_id", "position"),
)

Index("ix_runs_owner_idempotency_key", runs.c.owner, runs.c.idempotency_key, unique=True)
Index("ix_runs_owner_position", runs.c.owner, runs.c.position)

# Written as in the partial index on these runs: with bound parameters the index could not be used.
ACTIVE: ColumnElement[bool] = literal_column("runs.status IN ('pending', 'running')", Boolean)

# Leases of processes. A file lock cannot show whether a process on another machine is alive.
processes = Table(
    "processes",
    metadata,
    Column("process", String(64), primary_key=True),
    Column("lease_expires_at", UtcTime, nullable=False),
)

# Threads being deleted, with their former owner and the deleting process. After a crash the deletion is resumed.
deletions = Table(
    "deletions",
    metadata,
    Column("thread_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("process", String(64), nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

run_events = Table(
    "run_events",
    metadata,
    Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("event", String(32), nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

run_file_changes = Table(
    "run_file_changes",
    metadata,
    Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("data", LargeBinary, nullable=False),
)
