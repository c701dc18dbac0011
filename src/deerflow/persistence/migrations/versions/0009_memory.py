"""Create memory: facts, their changes, the search index and the extraction queue."""

import sqlite3

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
SECURE_DELETE_SINCE = (3, 42)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "memory_scopes",
        *whose(),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("is_off", sa.Boolean, nullable=False),
        sa.Column("updated_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("owner", "agent", name="pk_memory_scopes"),
    )
    create_changes()
    create_facts()
    create_pending()
    if op.get_bind().dialect.name == "sqlite":
        create_sqlite_terms()
    else:
        create_postgres_terms()


def whose() -> list[sa.Column[str]]:
    """Return the columns of the scope."""
    return [sa.Column("owner", sa.String(64), nullable=False), sa.Column("agent", sa.String(255), nullable=False)]


def create_changes() -> None:
    """Every change, in the order in which they happened."""
    op.create_table(
        "memory_changes",
        *whose(),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("change_id", sa.String(64), nullable=False),
        sa.Column("group_id", sa.String(64), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("target", sa.String(64), nullable=False),
        *(sa.Column(name, sa.JSON) for name in ("before", "after", "source")),
        sa.Column("source_thread", sa.String(255)),
        sa.Column("undoes", sa.String(64)),
        sa.PrimaryKeyConstraint("owner", "agent", "seq", name="pk_memory_changes"),
    )
    op.create_index("ix_memory_changes_change_id", "memory_changes", ["change_id"], unique=True)
    target = ["owner", "agent", "target", "seq"]
    op.create_index("ix_memory_changes_owner_agent_target_seq", "memory_changes", target)
    op.create_index("ix_memory_changes_owner_source_thread", "memory_changes", ["owner", "source_thread"])


def create_facts() -> None:
    """Create the current facts and their index."""
    op.create_table(
        "memory_facts",
        sa.Column("row_id", ROW_NUMBER, nullable=False),
        *whose(),
        sa.Column("fact_id", sa.String(64), nullable=False),
        sa.Column("category", sa.String(16), nullable=False),
        sa.Column("confidence", sa.Float, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("row_id", name="pk_memory_facts"),
    )
    key, best = ["owner", "agent", "fact_id"], ["owner", "agent", "confidence", "created_at"]
    op.create_index("ix_memory_facts_owner_agent_fact_id", "memory_facts", key, unique=True)
    op.create_index("ix_memory_facts_owner_agent_confidence_created_at", "memory_facts", best)
    op.create_index("ix_memory_facts_owner_agent_category", "memory_facts", ["owner", "agent", "category"])


def create_pending() -> None:
    """Create the extraction queue and its watermarks."""
    op.create_table(
        "memory_pending",
        *whose(),
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("last_message_id", sa.String(255), nullable=False),
        sa.Column("is_correction", sa.Boolean, nullable=False),
        sa.Column("is_reinforcement", sa.Boolean, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("process", sa.String(64)),
        sa.Column("lease_expires_at", sa.BigInteger),
        thread_of("memory_pending"),
        sa.PrimaryKeyConstraint("owner", "agent", "thread_id", name="pk_memory_pending"),
    )
    op.create_index("ix_memory_pending_due_at", "memory_pending", ["due_at"])
    op.create_index("ix_memory_pending_thread_id", "memory_pending", ["thread_id"])
    op.create_table(
        "memory_watermarks",
        *whose(),
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("message_id", sa.String(255), nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        thread_of("memory_watermarks"),
        sa.PrimaryKeyConstraint("owner", "agent", "thread_id", name="pk_memory_watermarks"),
    )
    op.create_index("ix_memory_watermarks_thread_id", "memory_watermarks", ["thread_id"])


def thread_of(table: str) -> sa.ForeignKeyConstraint:
    """Return the foreign key that deletes rows with their thread."""
    return sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], f"fk_{table}_thread_id", ondelete="CASCADE")


def create_sqlite_terms() -> None:
    """The words of facts, which come ready made, as those of messages do."""
    op.execute("CREATE VIRTUAL TABLE memory_terms USING fts5(terms, tokenize = 'ascii')")
    if sqlite3.sqlite_version_info >= SECURE_DELETE_SINCE:  # before, what is deleted has to be merged away
        op.execute("INSERT INTO memory_terms (memory_terms, rank) VALUES ('secure-delete', 1)")
    op.execute(
        "CREATE TRIGGER memory_facts_deleted AFTER DELETE ON memory_facts"
        " BEGIN DELETE FROM memory_terms WHERE rowid = old.row_id; END"
    )


def create_postgres_terms() -> None:
    """The words of facts with their places."""
    op.execute(
        "CREATE TABLE memory_terms ("
        "row_id bigint PRIMARY KEY REFERENCES memory_facts (row_id) ON DELETE CASCADE, terms tsvector NOT NULL)"
    )
    op.execute("CREATE INDEX ix_memory_terms_terms ON memory_terms USING gin (terms)")


def downgrade() -> None:
    """Undo."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER memory_facts_deleted")
    for table in (
        "memory_terms",
        "memory_watermarks",
        "memory_pending",
        "memory_facts",
        "memory_changes",
        "memory_scopes",
    ):
        op.drop_table(table)
