"""Create the record of deletions in progress, so that they are finished after a crash."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "deletions",
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", name="pk_deletions"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("deletions")
