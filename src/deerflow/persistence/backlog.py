"""Threads from before there was an index, until they are in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, delete, select

from deerflow.domain.events import EventName
from deerflow.domain.search import SaidMessage
from deerflow.persistence.runs import ACTIVE
from deerflow.persistence.search import index_said, index_title
from deerflow.persistence.tables import run_events, runs, search_backlog, search_messages, threads, to_key

TELLING = (runs.c.run_id, runs.c.request, runs.c.status, runs.c.attempt, runs.c.process)


@dataclass(frozen=True, slots=True)
class OldChange:
    """A `changes` event of a run."""

    run_id: str
    data: bytes
    said_at: datetime
    takes_back: bool
    """Whether what the run removed was left behind or undone, and not only put out of the model's view."""


def next_in_backlog(connection: Connection) -> str | None:
    """A thread that is not in the index yet."""
    return connection.execute(select(search_backlog.c.thread_id).limit(1)).scalar()


def old_changes(connection: Connection, thread_id: str, *, and_under_way: bool = False) -> Sequence[OldChange]:
    """What the ended runs of a thread changed, oldest first; also those `and_under_way` if that is wanted."""
    changes: EventName = "changes"
    query = (
        select(run_events.c.data, run_events.c.created_at.label("said_at"), *TELLING)
        .join(runs, runs.c.run_id == run_events.c.run_id)
        .where(runs.c.thread_id == thread_id, run_events.c.event == changes)
        .order_by(runs.c.created_at, run_events.c.seq)
    )
    ended = query if and_under_way else query.where(~ACTIVE)
    return [OldChange(row.run_id, row.data, row.said_at, takes_back(row._mapping)) for row in connection.execute(ended)]


def takes_back(run: Mapping[Any, Any]) -> bool:
    """Whether what a run removed was left behind, lost, undone or removed by somebody, and not only compacted."""
    went_back = bool(run["request"].get("checkpoint_id"))
    return went_back or run["status"] == "error" or run["attempt"] > 1 or not run["process"]


def work_off(connection: Connection, thread_id: str, said: Mapping[str, Sequence[SaidMessage]]) -> None:
    """Put a thread into the index by what each of its runs `said`, unless somebody else has; what is there stays."""
    if connection.execute(delete(search_backlog).where(search_backlog.c.thread_id == thread_id)).rowcount != 1:
        return
    thread = connection.execute(select(threads.c.owner, threads.c.title).where(threads.c.thread_id == thread_id)).one()
    known = set(
        connection.execute(select(search_messages.c.message_id).where(search_messages.c.thread_id == thread_id))
        .scalars()
        .all()
    )
    for run_id, messages in said.items():
        new = [message for message in messages if to_key(message.message_id) not in known]
        index_said(connection, thread_id, thread.owner, new, run_id)
    if thread.title and "" not in known:
        index_title(connection, thread_id, thread.owner, thread.title, datetime.now(UTC))
