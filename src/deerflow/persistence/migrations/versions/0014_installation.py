"""Give the database an id, and share links the place in the log where they end."""

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Apply."""
    installation = op.create_table(
        "installation",
        sa.Column("database_id", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("database_id", name="pk_installation"),
    )
    op.bulk_insert(installation, [{"database_id": str(uuid4())}])
    op.add_column("shares", sa.Column("run_position", sa.BigInteger))
    op.add_column("shares", sa.Column("event_seq", sa.BigInteger))


def downgrade() -> None:
    """Undo."""
    op.drop_column("shares", "event_seq")
    op.drop_column("shares", "run_position")
    op.drop_table("installation")
