"""Create projects with their files, and the index of passages of these files."""

import sqlite3

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0017"
SECURE_DELETE_SINCE = (3, 42)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "projects",
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("former_owner", sa.String(64)),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("instructions", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name="pk_projects"),
    )
    op.create_index("ix_projects_owner_updated_at", "projects", ["owner", "updated_at"])
    op.add_column("threads", sa.Column("project_id", sa.String(64)))
    op.create_index("ix_threads_project_id", "threads", ["project_id"])
    create_files()
    create_passages()
    if op.get_bind().dialect.name == "sqlite":
        create_sqlite_terms()
    else:
        create_postgres_terms()


def create_files() -> None:
    """Create the table of files."""
    op.create_table(
        "project_files",
        sa.Column("file_id", sa.String(64), nullable=False),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("problem", sa.Text),
        sa.Column("unit", sa.String(16)),
        sa.Column("pages", sa.Integer, nullable=False),
        sa.Column("passages", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("claim", sa.String(64)),
        sa.Column("claimed_until", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        cascade("project_files", "project_id", "projects"),
        sa.PrimaryKeyConstraint("file_id", name="pk_project_files"),
    )
    op.create_index("ix_project_files_project_id_name", "project_files", ["project_id", "name"], unique=True)
    op.create_index("ix_project_files_state_created_at", "project_files", ["state", "created_at"])


def create_passages() -> None:
    """Create the tables of passages and of their vectors."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "passages",
        sa.Column("row_id", number, nullable=False),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("file_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        cascade("passages", "file_id", "project_files"),
        sa.PrimaryKeyConstraint("row_id", name="pk_passages"),
    )
    op.create_index("ix_passages_file_id_number", "passages", ["file_id", "number"], unique=True)
    op.create_table(
        "passage_vectors",
        sa.Column("row_id", number, nullable=False, autoincrement=False),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("model", sa.String(255), nullable=False),
        sa.Column("signs", sa.LargeBinary, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        cascade("passage_vectors", "row_id", "passages"),
        sa.PrimaryKeyConstraint("row_id", name="pk_passage_vectors"),
    )
    columns = ["project_id", "model", "row_id", "signs"]
    op.create_index("ix_passage_vectors_project_id_model_row_id_signs", "passage_vectors", columns)


def cascade(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    """Return the foreign key that deletes rows with what they belong to."""
    return sa.ForeignKeyConstraint([column], [f"{target}.{column}"], f"fk_{table}_{column}", ondelete="CASCADE")


def create_sqlite_terms() -> None:
    """Create the terms of passages, with a term that stands for the project."""
    op.execute("CREATE VIRTUAL TABLE passage_terms USING fts5(terms, project, tokenize = 'ascii')")
    if sqlite3.sqlite_version_info >= SECURE_DELETE_SINCE:
        op.execute("INSERT INTO passage_terms (passage_terms, rank) VALUES ('secure-delete', 1)")
    op.execute(
        "CREATE TRIGGER passages_deleted AFTER DELETE ON passages"
        " BEGIN DELETE FROM passage_terms WHERE rowid = old.row_id; END"
    )


def create_postgres_terms() -> None:
    """Create the terms of passages with their positions."""
    op.execute(
        "CREATE TABLE passage_terms ("
        "row_id bigint PRIMARY KEY REFERENCES passages (row_id) ON DELETE CASCADE, terms tsvector NOT NULL)"
    )
    op.execute("CREATE INDEX ix_passage_terms_terms ON passage_terms USING gin (terms)")


def downgrade() -> None:
    """Undo."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER passages_deleted")
    for table in ("passage_terms", "passage_vectors", "passages", "project_files"):
        op.drop_table(table)
    op.drop_index("ix_threads_project_id", "threads")
    op.drop_column("threads", "project_id")
    op.drop_table("projects")
