"""Create the key-value store of clients."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "store_items",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("namespace", sa.String(512), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("value", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "namespace", "key", name="pk_store_items"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("store_items")
