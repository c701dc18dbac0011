"""Create share links; separate user titles from generated ones; add the wait reason of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

THREADS = sa.table(
    "threads",
    sa.column("thread_id", sa.String),
    sa.column("title", sa.Text),
    sa.column("agent_title", sa.Text),
    sa.column("metadata", sa.JSON),
)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "shares",
        sa.Column("share_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], name="fk_shares_thread_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("share_id", name="pk_shares"),
    )
    op.create_index("ix_shares_token_hash", "shares", ["token_hash"], unique=True)
    op.create_index("ix_shares_thread_id", "shares", ["thread_id"])
    op.add_column("threads", sa.Column("agent_title", sa.Text))
    op.add_column("runs", sa.Column("waits_for", sa.String(16)))
    move_given_titles()


def move_given_titles() -> None:
    """Copy titles that users set in the metadata to the threads."""
    connection = op.get_bind()
    rows = connection.execute(sa.select(THREADS.c.thread_id, THREADS.c.title, THREADS.c.metadata)).all()
    for row in rows:
        given = row.metadata.get("title")
        if isinstance(given, str) and given:
            titles = {"title": given.replace("\0", "\ufffd"), "agent_title": row.title}
            connection.execute(sa.update(THREADS).where(THREADS.c.thread_id == row.thread_id).values(titles))


def downgrade() -> None:
    """Undo."""
    op.drop_column("runs", "waits_for")
    op.drop_column("threads", "agent_title")
    op.drop_table("shares")
