"""Index the owner of each message with its terms, and short prefixes, in SQLite.

A search then reads the messages of one owner only, and a word of which one to three characters are typed is one term of
the index instead of all words that begin with them.
"""

import sqlite3
from hashlib import sha256

from alembic import op

revision = "0016"
down_revision = "0015"
SECURE_DELETE_SINCE = (3, 42)


def upgrade() -> None:
    """Apply."""
    copy_terms(
        "terms, owner, tokenize = 'ascii', prefix = '1 2 3'", "terms, owner", "terms, owner_term(search_messages.owner)"
    )


def downgrade() -> None:
    """Undo."""
    copy_terms("terms, tokenize = 'ascii'", "terms", "search_terms.terms")


def owner_term(owner: str) -> str:
    """Return the term that stands for an owner."""
    return f"o{sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def copy_terms(definition: str, columns: str, values: str) -> None:
    """Copy the index. That of PostgreSQL stays as it is."""
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        return
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.create_function("owner_term", 1, owner_term, deterministic=True)
    op.execute(f"CREATE VIRTUAL TABLE copied_terms USING fts5({definition})")
    if sqlite3.sqlite_version_info >= SECURE_DELETE_SINCE:
        op.execute("INSERT INTO copied_terms (copied_terms, rank) VALUES ('secure-delete', 1)")
    op.execute(
        f"INSERT INTO copied_terms (rowid, {columns}) SELECT search_terms.rowid, {values} FROM search_terms"
        " JOIN search_messages ON search_messages.row_id = search_terms.rowid ORDER BY search_terms.rowid"
    )
    op.execute("DROP TRIGGER search_messages_deleted")  # SQLite renames no table while a trigger names one that is gone
    op.execute("DROP TABLE search_terms")
    op.execute("ALTER TABLE copied_terms RENAME TO search_terms")
    op.execute(
        "CREATE TRIGGER search_messages_deleted AFTER DELETE ON search_messages"
        " BEGIN DELETE FROM search_terms WHERE rowid = old.row_id; END"
    )
