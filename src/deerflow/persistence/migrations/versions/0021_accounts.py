"""Create accounts, their sessions, API tokens and links, and the record of failed logins."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

OWNER = "accounts.user_id"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "accounts",
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("email", sa.String(255), nullable=False),
        sa.Column("email_key", sa.String(255), nullable=False),
        sa.Column("password_hash", sa.String(255), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_login_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("user_id", name="pk_accounts"),
    )
    op.create_index("ix_accounts_email_key", "accounts", ["email_key"], unique=True)
    create_credentials()
    op.create_table(
        "account_links",
        sa.Column("link_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(64)),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("email", sa.String(255)),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("link_id", name="pk_account_links"),
        sa.ForeignKeyConstraint(["user_id"], [OWNER], name="fk_account_links_user_id", ondelete="CASCADE"),
    )
    op.create_index("ix_account_links_token_hash", "account_links", ["token_hash"], unique=True)
    op.create_index("ix_account_links_user_id", "account_links", ["user_id"])
    op.create_table(
        "login_failures",
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("failures", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_login_failures"),
    )
    op.create_index("ix_login_failures_updated_at", "login_failures", ["updated_at"])


def create_credentials() -> None:
    """Create the tables of sessions and API tokens."""
    op.create_table(
        "login_sessions",
        sa.Column("session_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("client", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="pk_login_sessions"),
        sa.ForeignKeyConstraint(["owner"], [OWNER], name="fk_login_sessions_owner", ondelete="CASCADE"),
    )
    op.create_table(
        "api_tokens",
        sa.Column("token_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("token_id", name="pk_api_tokens"),
        sa.ForeignKeyConstraint(["owner"], [OWNER], name="fk_api_tokens_owner", ondelete="CASCADE"),
    )
    for table in ("login_sessions", "api_tokens"):
        op.create_index(f"ix_{table}_token_hash", table, ["token_hash"], unique=True)
        op.create_index(f"ix_{table}_owner", table, ["owner"])


def downgrade() -> None:
    """Undo."""
    for table in ("login_failures", "account_links", "api_tokens", "login_sessions", "accounts"):
        op.drop_table(table)
