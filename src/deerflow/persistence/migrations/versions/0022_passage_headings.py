"""Add the headings above passages of project files."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Apply."""
    op.add_column("passages", sa.Column("headings", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    """Undo."""
    op.drop_column("passages", "headings")
