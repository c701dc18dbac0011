"""Indexes that only some rows of a table are in, and with them the whole schema.

Declaring one loads what SQLAlchemy knows of either database, megabytes that a server on SQLite does not need: so they
stand here, where only migrations look.
"""

from sqlalchemy import Index, text

from deerflow.persistence.tables import metadata, runs

RUNNING, ACTIVE = text("status = 'running'"), text("status IN ('pending', 'running')")

# At most one run of a thread is under way, others wait; the database itself refuses a second one.
Index("ix_runs_running_thread_id", runs.c.thread_id, unique=True, sqlite_where=RUNNING, postgresql_where=RUNNING)
# Unfinished runs are few among many.
Index("ix_runs_active_process", runs.c.process, sqlite_where=ACTIVE, postgresql_where=ACTIVE)

whole_schema = metadata
