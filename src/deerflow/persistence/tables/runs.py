"""Tables of threads, runs and their events."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    literal_column,
)
from sqlalchemy.types import JSON

from deerflow.persistence.tables.columns import PlainText, UtcTime, metadata

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
    Index("ix_threads_owner_updated_at", "owner", "updated_at"),
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
