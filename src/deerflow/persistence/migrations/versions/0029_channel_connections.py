"""Create the tables of leases and connections of chat apps, and of webhooks."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "channel_leases",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("renewals", sa.BigInteger, nullable=False),
        sa.Column("restarts", sa.BigInteger, nullable=False),
        sa.Column("state", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_channel_leases"),
    )
    op.create_table(
        "channel_connections",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_channel_connections"),
    )
    op.create_table(
        "hooks",
        sa.Column("hook_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("is_enabled", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("hook_id", name="pk_hooks"),
    )
    op.create_index("ix_hooks_owner", "hooks", ["owner"])


def downgrade() -> None:
    """Undo."""
    for table in ("hooks", "channel_connections", "channel_leases"):
        op.drop_table(table)
