"""Create threads, runs and run events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ACTIVE = sa.text("status IN ('pending', 'running')")


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "threads",
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", name="pk_threads"),
    )
    op.create_index("ix_threads_owner_updated_at", "threads", ["owner", "updated_at"])
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("assistant_id", sa.Text, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("on_disconnect", sa.String(16), nullable=False),
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], "fk_runs_thread_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )
    op.create_index("ix_runs_thread_id_created_at", "runs", ["thread_id", "created_at"])
    op.create_index(
        "ix_runs_active_thread_id", "runs", ["thread_id"], unique=True, sqlite_where=ACTIVE, postgresql_where=ACTIVE
    )
    op.create_table(
        "run_events",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], "fk_run_events_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_run_events"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Undo."""
    for table in ("run_events", "runs", "threads"):
        op.drop_table(table)
