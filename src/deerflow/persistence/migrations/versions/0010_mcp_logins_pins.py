"""Create OAuth tokens, pending logins and accepted tools of MCP servers."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "mcp_tokens",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("server", sa.String(255), nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("claim", sa.String(64)),
        sa.Column("claimed_until", sa.BigInteger),
        sa.PrimaryKeyConstraint("owner", "server", name="pk_mcp_tokens"),
    )
    op.create_index("ix_mcp_tokens_server", "mcp_tokens", ["server"])
    op.create_table(
        "mcp_logins",
        sa.Column("state_hash", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("server", sa.String(255), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("state_hash", name="pk_mcp_logins"),
    )
    op.create_index("ix_mcp_logins_owner", "mcp_logins", ["owner"])
    op.create_index("ix_mcp_logins_server", "mcp_logins", ["server"])
    op.create_table(
        "mcp_pins",
        sa.Column("server", sa.String(255), nullable=False),
        sa.Column("tool", sa.String(255), nullable=False),
        sa.Column("hash", sa.String(64)),
        sa.Column("shown", sa.JSON),
        sa.Column("accepted_at", sa.BigInteger),
        sa.Column("accepted_by", sa.String(64)),
        sa.Column("offered_hash", sa.String(64)),
        sa.Column("offered", sa.JSON),
        sa.Column("offered_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("server", "tool", name="pk_mcp_pins"),
    )


def downgrade() -> None:
    """Undo."""
    for table in ("mcp_pins", "mcp_logins", "mcp_tokens"):
        op.drop_table(table)
