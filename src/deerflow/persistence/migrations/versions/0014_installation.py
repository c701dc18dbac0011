"""Give the database an id, by which a server notices that it was lost or replaced."""

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


def downgrade() -> None:
    """Undo."""
    op.drop_table("installation")
