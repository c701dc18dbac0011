"""What runs did to files, in the database. The owner is part of every query."""

from sqlalchemy import Connection, delete, insert, select

from deerflow.persistence.tables import run_file_changes as changes


def keep_file_changes(connection: Connection, run_id: str, owner: str, data: bytes) -> None:
    """Keep what a run did, in place of what an earlier attempt had noted."""
    connection.execute(delete(changes).where(changes.c.run_id == run_id, changes.c.owner == owner))
    connection.execute(insert(changes), {"run_id": run_id, "owner": owner, "data": data})


def find_file_changes(connection: Connection, run_id: str, owner: str) -> bytes | None:
    """What a run did, if anything."""
    mine = select(changes.c.data).where(changes.c.run_id == run_id, changes.c.owner == owner)
    return connection.execute(mine).scalar()
