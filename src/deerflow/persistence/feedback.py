"""What people think of runs, in the database: one opinion of each owner on a run and on each of its messages."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.feedback import Feedback, FeedbackStats
from deerflow.persistence.runs import find_run
from deerflow.persistence.tables import feedback, to_key


def put_feedback(connection: Connection, given: Feedback, *, may_exist: bool) -> Feedback:
    """Keep an opinion; the one there was is replaced when it `may_exist`.

    Raises:
        NotFound: there is no such run, or it is somebody else's.
        Conflict: there is an opinion already, and there may not be.
    """
    find_run(connection, given.thread_id, given.run_id, given.owner)
    message_id = to_key(given.message_id or "")
    mine = of_run(given.thread_id, given.run_id, given.owner) & (feedback.c.message_id == message_id)
    changes = {"rating": given.rating, "comment": given.comment, "updated_at": given.updated_at}
    known = connection.execute(select(feedback.c.feedback_id).where(mine)).scalar()
    if known is None:
        connection.execute(insert(feedback), {**asdict(given), "message_id": message_id})
    elif may_exist:
        connection.execute(update(feedback).where(mine), changes)
    else:
        raise Conflict(f"there is feedback on this already, {known!r}: change it with PUT")
    return to_feedback(connection.execute(select(feedback).where(mine)).one())


def list_feedback(connection: Connection, thread_id: str, run_id: str, owner: str) -> Sequence[Feedback]:
    """The owner's opinions on a run, oldest first, or `NotFound`."""
    find_run(connection, thread_id, run_id, owner)
    query = select(feedback).where(of_run(thread_id, run_id, owner))
    return [to_feedback(row) for row in connection.execute(query.order_by(feedback.c.created_at))]


def feedback_stats(connection: Connection, thread_id: str, run_id: str, owner: str) -> FeedbackStats:
    """How many opinions there are of each kind, or `NotFound`."""
    find_run(connection, thread_id, run_id, owner)
    query = select(feedback.c.rating, func.count()).where(of_run(thread_id, run_id, owner))
    found = {row[0]: row[1] for row in connection.execute(query.group_by(feedback.c.rating))}
    return FeedbackStats(sum(found.values()), found.get(1, 0), found.get(-1, 0))


def delete_feedback(
    connection: Connection, thread_id: str, run_id: str, owner: str, feedback_id: str | None = None
) -> None:
    """Remove one of the owner's opinions on a run, or all.

    Raises:
        NotFound: there is no such run or opinion.
    """
    find_run(connection, thread_id, run_id, owner)
    which = of_run(thread_id, run_id, owner)
    if feedback_id is not None:
        which &= feedback.c.feedback_id == feedback_id
    if connection.execute(delete(feedback).where(which)).rowcount == 0:
        raise NotFound(
            f"no feedback {feedback_id!r} on run {run_id!r}" if feedback_id else f"no feedback on {run_id!r}"
        )


def of_run(thread_id: str, run_id: str, owner: str) -> ColumnElement[bool]:
    """That an opinion is the owner's, on this run."""
    return (feedback.c.run_id == run_id) & (feedback.c.thread_id == thread_id) & (feedback.c.owner == owner)


def to_feedback(row: Row[Any]) -> Feedback:
    """A row in the words of the domain."""
    return Feedback(**{**row._mapping, "message_id": row.message_id or None})
