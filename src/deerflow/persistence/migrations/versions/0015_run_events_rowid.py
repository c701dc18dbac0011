"""Give the events of runs a row id in SQLite: without one, each event above a kilobyte takes a page of its own."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Apply."""
    copy_events(with_rowid=True)


def downgrade() -> None:
    """Undo."""
    copy_events(with_rowid=False)


def copy_events(*, with_rowid: bool) -> None:
    """Copy the table. PostgreSQL stores all rows in the same way."""
    if op.get_bind().dialect.name != "sqlite":
        return
    op.create_table(
        "copied_run_events",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], "fk_run_events_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_run_events"),
        sqlite_with_rowid=with_rowid,
    )
    op.execute("INSERT INTO copied_run_events SELECT run_id, seq, event, data, created_at FROM run_events")
    op.drop_table("run_events")
    op.rename_table("copied_run_events", "run_events")
