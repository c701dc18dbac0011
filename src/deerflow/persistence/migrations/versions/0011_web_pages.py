"""Create snapshots of fetched web pages."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "web_pages",
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("snapshot_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("asked_url", "url", "title", "content_type")),
        sa.Column("text_hash", sa.String(64)),
        sa.Column("chars", sa.Integer, nullable=False),
        sa.Column("problem", sa.Text),
        sa.Column("fetched_at", sa.BigInteger, nullable=False),
        thread_of("web_pages"),
        sa.PrimaryKeyConstraint("thread_id", "snapshot_id", name="pk_web_pages"),
    )
    op.create_index("ix_web_pages_thread_id_fetched_at", "web_pages", ["thread_id", "fetched_at"])
    op.create_table(
        "web_texts",
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("text_hash", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("chars", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        thread_of("web_texts"),
        sa.PrimaryKeyConstraint("thread_id", "text_hash", name="pk_web_texts"),
    )


def thread_of(table: str) -> sa.ForeignKeyConstraint:
    """Return the foreign key that deletes rows with their thread."""
    return sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], f"fk_{table}_thread_id", ondelete="CASCADE")


def downgrade() -> None:
    """Undo."""
    op.drop_table("web_texts")
    op.drop_table("web_pages")
