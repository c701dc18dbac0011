"""Add leases of processes, and cancel requests for runs of other processes."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ACTIVE = sa.text("status IN ('pending', 'running')")


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "processes",
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("process", name="pk_processes"),
    )
    op.add_column("runs", sa.Column("cancel_action", sa.String(16)))
    op.create_index("ix_runs_active_process", "runs", ["process"], sqlite_where=ACTIVE, postgresql_where=ACTIVE)


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_runs_active_process", "runs")
    op.drop_column("runs", "cancel_action")
    op.drop_table("processes")
