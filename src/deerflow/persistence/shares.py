"""Links to threads, in the database. Of a link's secret only a hash is kept."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, delete, func, insert, select

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.sharing import Share
from deerflow.persistence.tables import shares, threads
from deerflow.persistence.threads import find_thread, hold_thread

MOST_SHARES = 100
"""So many links a thread may have; each is a way in that somebody has to keep in mind."""


def insert_share(connection: Connection, given: Share, token_hash: str) -> Share:
    """Keep a link.

    Raises:
        NotFound: there is no such thread, or it is somebody else's.
        Conflict: the thread has too many links.
    """
    hold_thread(connection, given.thread_id)
    find_thread(connection, given.thread_id, given.owner)
    mine = (shares.c.thread_id == given.thread_id) & (shares.c.owner == given.owner)
    if (connection.execute(select(func.count()).where(mine)).scalar() or 0) >= MOST_SHARES:
        raise Conflict(f"thread {given.thread_id!r} has {MOST_SHARES} links already: take some of them back")
    row = {name: getattr(given, name) for name in Share.__slots__}
    connection.execute(insert(shares), {**row, "token_hash": token_hash})
    return given


def list_shares(connection: Connection, thread_id: str, owner: str) -> Sequence[Share]:
    """The owner's links to a thread, newest first, or `NotFound`."""
    find_thread(connection, thread_id, owner)
    mine = select(shares).where(shares.c.thread_id == thread_id, shares.c.owner == owner)
    return [
        to_share(row._mapping)
        for row in connection.execute(mine.order_by(shares.c.created_at.desc(), shares.c.share_id))
    ]


def delete_share(connection: Connection, thread_id: str, owner: str, share_id: str) -> None:
    """Take a link back.

    Raises:
        NotFound: there is no such link, or it is somebody else's.
    """
    which = (shares.c.share_id == share_id) & (shares.c.thread_id == thread_id) & (shares.c.owner == owner)
    if connection.execute(delete(shares).where(which)).rowcount == 0:
        raise NotFound(f"no link {share_id!r} to thread {thread_id!r}")


def find_shared(connection: Connection, token_hash: str, now: datetime) -> tuple[Share, str | None] | None:
    """The link whose secret has this hash, and the title of its thread; None when it no longer works.

    A thread that is being deleted belongs to nobody, so its links end at once.
    """
    works = shares.c.expires_at.is_(None) | (shares.c.expires_at > now)
    query = (
        select(*shares.c, threads.c.title)
        .join(threads, (threads.c.thread_id == shares.c.thread_id) & (threads.c.owner == shares.c.owner))
        .where(shares.c.token_hash == token_hash, works)
    )
    row = connection.execute(query).first()
    return None if row is None else (to_share(row._mapping), row.title)


def to_share(row: RowMapping) -> Share:
    """A row in the words of the domain."""
    return Share(**{name: row[name] for name in Share.__slots__})
