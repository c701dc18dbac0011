"""Create the audit log, and the record of people whose data is being deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "audit_entries",
        sa.Column("seq", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(48), nullable=False),
        sa.Column("actor", sa.String(64)),
        sa.Column("subject", sa.String(64)),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("details", sa.Text),
        sa.Column("salt", sa.String(32)),
        sa.Column("details_hash", sa.String(64)),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit_entries"),
    )
    for column in ("actor", "subject", "kind"):
        op.create_index(f"ix_audit_entries_{column}_seq", "audit_entries", [column, "seq"])
    op.create_table(
        "audit_head",
        sa.Column("head_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("head_id", name="pk_audit_head"),
    )
    op.create_table(
        "user_deletions",
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_user_deletions"),
    )


def downgrade() -> None:
    """Undo."""
    for table in ("user_deletions", "audit_head", "audit_entries"):
        op.drop_table(table)
