"""Create token usage, feedback, profiles and the search index."""

import sqlite3

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
SECURE_DELETE_SINCE = (3, 42)
COUNTS = ("calls", "unmetered_calls", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")


def upgrade() -> None:
    """Apply."""
    for name in ("input_tokens", "output_tokens"):
        op.add_column("runs", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("ix_runs_owner_created_at", "runs", ["owner", "created_at"])
    create_usage()
    create_feedback()
    create_search()
    op.create_table(
        "user_profiles",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_user_profiles"),
    )


def create_usage() -> None:
    """Create token usage."""
    op.create_table(
        "usage_entries",
        sa.Column("entry_id", ROW_NUMBER, nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("thread_id", sa.String(64)),
        sa.Column("run_id", sa.String(64)),
        sa.Column("caller", sa.String(64), nullable=False),
        sa.Column("model", sa.String(255), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in (*COUNTS, "reasoning_tokens")),
        sa.Column("context_tokens", sa.BigInteger),
        sa.Column("cost", sa.BigInteger),
        sa.Column("currency", sa.String(8)),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["thread_id"], ["threads.thread_id"], "fk_usage_entries_thread_id", ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], "fk_usage_entries_run_id", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("entry_id", name="pk_usage_entries"),
    )
    op.create_index("ix_usage_entries_owner_ended_at", "usage_entries", ["owner", "ended_at"])
    op.create_index("ix_usage_entries_thread_id", "usage_entries", ["thread_id"])
    op.create_index("ix_usage_entries_run_id", "usage_entries", ["run_id"])


def create_feedback() -> None:
    """Create feedback."""
    op.create_table(
        "feedback",
        sa.Column("feedback_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("message_id", sa.String(255), nullable=False),
        sa.Column("rating", sa.Integer, nullable=False),
        sa.Column("comment", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], "fk_feedback_thread_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], "fk_feedback_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feedback_id", name="pk_feedback"),
    )
    op.create_index("ix_feedback_run_id_owner_message_id", "feedback", ["run_id", "owner", "message_id"], unique=True)
    op.create_index("ix_feedback_thread_id", "feedback", ["thread_id"])


def create_search() -> None:
    """Create the search index and its backlog."""
    op.create_table(
        "search_messages",
        sa.Column("row_id", ROW_NUMBER, nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("message_id", sa.String(255), nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["thread_id"], ["threads.thread_id"], "fk_search_messages_thread_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], "fk_search_messages_run_id", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("row_id", name="pk_search_messages"),
    )
    key = ["thread_id", "message_id", "part"]
    op.create_index("ix_search_messages_thread_id_message_id_part", "search_messages", key, unique=True)
    op.create_index("ix_search_messages_run_id", "search_messages", ["run_id"])
    op.create_table(
        "search_backlog",
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["thread_id"], ["threads.thread_id"], "fk_search_backlog_thread_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("thread_id", name="pk_search_backlog"),
    )
    op.execute("INSERT INTO search_backlog (thread_id) SELECT thread_id FROM threads")
    if op.get_bind().dialect.name == "sqlite":
        create_sqlite_terms()
    else:
        create_postgres_terms()


def create_sqlite_terms() -> None:
    """The words of messages, which come ready made: all that is left to do is to part them at blanks."""
    op.execute("CREATE VIRTUAL TABLE search_terms USING fts5(terms, tokenize = 'ascii')")
    if sqlite3.sqlite_version_info >= SECURE_DELETE_SINCE:  # before, what is deleted has to be merged away
        op.execute("INSERT INTO search_terms (search_terms, rank) VALUES ('secure-delete', 1)")
    op.execute(
        "CREATE TRIGGER search_messages_deleted AFTER DELETE ON search_messages"
        " BEGIN DELETE FROM search_terms WHERE rowid = old.row_id; END"
    )


def create_postgres_terms() -> None:
    """The words of messages with their places."""
    op.execute(
        "CREATE TABLE search_terms ("
        "row_id bigint PRIMARY KEY REFERENCES search_messages (row_id) ON DELETE CASCADE, terms tsvector NOT NULL)"
    )
    op.execute("CREATE INDEX ix_search_terms_terms ON search_terms USING gin (terms)")


def downgrade() -> None:
    """Undo."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER search_messages_deleted")
    for table in ("search_terms", "search_backlog", "search_messages", "user_profiles", "feedback", "usage_entries"):
        op.drop_table(table)
    op.drop_index("ix_runs_owner_created_at", "runs")
    for name in ("output_tokens", "input_tokens"):
        op.drop_column("runs", name)
