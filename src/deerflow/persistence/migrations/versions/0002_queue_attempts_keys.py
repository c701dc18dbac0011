"""Add the run queue, attempts and idempotency keys."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

RUNNING = sa.text("status = 'running'")


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("multitask_strategy", sa.String(16), nullable=False, server_default="reject"))
    op.add_column("runs", sa.Column("attempt", sa.Integer, nullable=False, server_default="1"))
    op.add_column("runs", sa.Column("idempotency_key", sa.String(255)))
    op.add_column("runs", sa.Column("request_hash", sa.String(64), nullable=False, server_default=""))
    op.drop_index("ix_runs_active_thread_id", "runs")
    op.create_index(
        "ix_runs_running_thread_id", "runs", ["thread_id"], unique=True, sqlite_where=RUNNING, postgresql_where=RUNNING
    )
    op.create_index("ix_runs_owner_idempotency_key", "runs", ["owner", "idempotency_key"], unique=True)


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_runs_owner_idempotency_key", "runs")
    op.drop_index("ix_runs_running_thread_id", "runs")
    for column in ("request_hash", "idempotency_key", "attempt", "multitask_strategy"):
        op.drop_column("runs", column)
