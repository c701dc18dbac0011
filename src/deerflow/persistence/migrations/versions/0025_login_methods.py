"""Create identities at OpenID providers, passkeys, and logins that have begun."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

OWNER = "accounts.user_id"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "identities",
        sa.Column("identity_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("issuer", sa.String(512), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("email", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("identity_id", name="pk_identities"),
        sa.ForeignKeyConstraint(["owner"], [OWNER], name="fk_identities_owner", ondelete="CASCADE"),
    )
    op.create_index("ix_identities_issuer_subject", "identities", ["issuer", "subject"], unique=True)
    op.create_index("ix_identities_owner", "identities", ["owner"])
    op.create_table(
        "passkeys",
        sa.Column("passkey_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("credential_hash", sa.String(64), nullable=False),
        sa.Column("credential_id", sa.LargeBinary, nullable=False),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("sign_count", sa.BigInteger, nullable=False),
        sa.Column("is_synced", sa.Boolean, nullable=False),
        sa.Column("is_backed_up", sa.Boolean, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("passkey_id", name="pk_passkeys"),
        sa.ForeignKeyConstraint(["owner"], [OWNER], name="fk_passkeys_owner", ondelete="CASCADE"),
    )
    op.create_index("ix_passkeys_credential_hash", "passkeys", ["credential_hash"], unique=True)
    op.create_index("ix_passkeys_owner", "passkeys", ["owner"])
    op.create_table(
        "login_attempts",
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("user_id", sa.String(64)),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key_hash", name="pk_login_attempts"),
        sa.ForeignKeyConstraint(["user_id"], [OWNER], name="fk_login_attempts_user_id", ondelete="CASCADE"),
    )
    op.create_index("ix_login_attempts_network", "login_attempts", ["network"])
    op.create_index("ix_login_attempts_expires_at", "login_attempts", ["expires_at"])


def downgrade() -> None:
    """Undo."""
    for table in ("login_attempts", "passkeys", "identities"):
        op.drop_table(table)
