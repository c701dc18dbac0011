"""Create the tables of chat apps."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Apply."""
    create_people()
    op.create_table(
        "channel_inbound",
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("update_id", sa.String(128), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("channel", "account", "update_id", name="pk_channel_inbound"),
    )
    op.create_index("ix_channel_inbound_owner", "channel_inbound", ["owner"])
    op.create_index("ix_channel_inbound_received_at", "channel_inbound", ["received_at"])
    op.create_table(
        "channel_outbox",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("chat", sa.String(128), nullable=False),
        sa.Column("topic", sa.String(128), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("thread_id", sa.String(64)),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("repeats", sa.Integer, nullable=False),
        sa.Column("body", sa.Text),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("message_id", sa.String(128)),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_channel_outbox"),
    )
    op.create_index("ix_channel_outbox_channel_account_state", "channel_outbox", ["channel", "account", "state"])
    op.create_index("ix_channel_outbox_owner", "channel_outbox", ["owner"])
    op.create_index("ix_channel_outbox_updated_at", "channel_outbox", ["updated_at"])


def create_people() -> None:
    """Create the tables of people, their codes and their chats."""
    op.create_table(
        "channel_people",
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("external_id", sa.String(128), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("channel", "account", "external_id", name="pk_channel_people"),
    )
    op.create_index("ix_channel_people_owner", "channel_people", ["owner"])
    op.create_table(
        "channel_codes",
        sa.Column("code_hash", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("code_hash", name="pk_channel_codes"),
    )
    op.create_index("ix_channel_codes_owner", "channel_codes", ["owner"])
    op.create_index("ix_channel_codes_expires_at", "channel_codes", ["expires_at"])
    op.create_table(
        "channel_chats",
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("chat", sa.String(128), nullable=False),
        sa.Column("topic", sa.String(128), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("channel", "account", "chat", "topic", "owner", name="pk_channel_chats"),
    )
    op.create_index("ix_channel_chats_owner", "channel_chats", ["owner"])


def downgrade() -> None:
    """Undo."""
    for table in ("channel_outbox", "channel_inbound", "channel_chats", "channel_codes", "channel_people"):
        op.drop_table(table)
