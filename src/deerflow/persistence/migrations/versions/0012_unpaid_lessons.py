"""Add the mark of extractions that wait for budget."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Apply."""
    unpaid = sa.Column("is_unpaid", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("memory_pending", unpaid)


def downgrade() -> None:
    """Undo."""
    op.drop_column("memory_pending", "is_unpaid")
