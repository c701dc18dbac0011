"""What people say about themselves, in the database."""

from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select

from deerflow.persistence.tables import user_profiles


def read_profile(connection: Connection, owner: str) -> str:
    """What the owner says about themselves; empty when they have said nothing."""
    return connection.execute(select(user_profiles.c.content).where(user_profiles.c.owner == owner)).scalar() or ""


def write_profile(connection: Connection, owner: str, content: str) -> None:
    """Keep what the owner says about themselves; nothing is kept of an empty text."""
    connection.execute(delete(user_profiles).where(user_profiles.c.owner == owner))
    if content:
        row = {"owner": owner, "content": content, "updated_at": datetime.now(UTC)}
        connection.execute(insert(user_profiles), row)
