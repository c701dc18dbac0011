"""Threads in the database. The owner is part of every query."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, ScalarSelect, Select, func, insert, select, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.ids import NOBODY
from deerflow.domain.runs import RunStatus
from deerflow.domain.threads import ThreadFilter, ThreadRecord, ThreadStatus
from deerflow.persistence.matching import holds
from deerflow.persistence.search import index_title
from deerflow.persistence.tables import runs, threads


def of_latest_run(column: Column[Any]) -> ScalarSelect[Any]:
    """Something of a thread's latest run."""
    mine = runs.c.thread_id == threads.c.thread_id
    return select(column).where(mine).order_by(runs.c.created_at.desc()).limit(1).scalar_subquery()


LATEST_RUN = of_latest_run(runs.c.status)
"""The status of a thread's latest run."""
WAITS_FOR = of_latest_run(runs.c.waits_for)
"""What a thread's latest run has left for a person to say."""


def insert_thread(
    connection: Connection, thread_id: str, owner: str, metadata: Mapping[str, object], title: str | None = None
) -> None:
    """Begin a thread; `title` is what the agent calls it, if a person does not call it something else."""
    now, given = datetime.now(UTC), given_title(metadata)
    names = {"title": title} if given is None else {"title": given, "agent_title": title}
    row = {"thread_id": thread_id, "owner": owner, "metadata": dict(metadata), "created_at": now, "updated_at": now}
    connection.execute(insert(threads), {**row, **names})
    if names["title"] is not None:
        index_title(connection, thread_id, owner, names["title"], now, is_new=True)


def thread_exists(connection: Connection, thread_id: str, owner: str) -> bool:
    """Whether `owner` has a thread of that name; nobody else changes it until this transaction is over.

    Raises:
        NotFound: somebody else has.
        Conflict: it is being deleted.
    """
    mine = select(threads.c.owner).where(threads.c.thread_id == thread_id).with_for_update(key_share=True)
    found = connection.execute(mine).scalar()
    if found == NOBODY:
        raise Conflict(f"thread {thread_id!r} is being deleted; in a moment its name is free again")
    if found not in (None, owner):
        raise NotFound(f"no thread {thread_id!r}")
    return found is not None


def hold_thread(connection: Connection, thread_id: str) -> None:
    """Have nobody else begin or end a run of the thread until this transaction is over."""
    if connection.dialect.name != "sqlite":  # which lets one write at a time
        connection.execute(
            select(threads.c.owner).where(threads.c.thread_id == thread_id).with_for_update(key_share=True)
        )


def find_thread(connection: Connection, thread_id: str, owner: str) -> ThreadRecord:
    """The thread.

    Raises:
        NotFound: there is none, or it is somebody else's.
    """
    row = connection.execute(with_status(owner).where(threads.c.thread_id == thread_id)).first()
    if row is None:
        raise NotFound(f"no thread {thread_id!r}")
    return to_record(row)


def search_threads(
    connection: Connection, owner: str, limit: int, offset: int, wanted: ThreadFilter = ThreadFilter()
) -> Sequence[ThreadRecord]:
    """The owner's threads that are looked for."""
    column = LATEST_RUN if wanted.sort_by == "status" else threads.c[wanted.sort_by]
    order = column.asc() if wanted.ascending else column.desc()
    found = with_status(owner).where(*conditions(wanted)).order_by(order, threads.c.thread_id)
    return [to_record(row) for row in connection.execute(found.limit(limit).offset(offset))]


def count_threads(connection: Connection, owner: str, wanted: ThreadFilter) -> int:
    """How many threads of the owner are looked for."""
    found = select(func.count()).select_from(threads).where(threads.c.owner == owner, *conditions(wanted))
    return connection.execute(found).scalar() or 0


def conditions(wanted: ThreadFilter) -> list[ColumnElement[bool]]:
    """What holds for the threads that are looked for."""
    found = holds(threads.c.metadata, wanted.metadata)
    if wanted.ids is not None:
        found.append(threads.c.thread_id.in_(wanted.ids))
    if wanted.status is not None:
        runs_say = [status for status in RunStatus if thread_status(status) == wanted.status]
        is_it = LATEST_RUN.in_(runs_say)
        found.append(is_it | LATEST_RUN.is_(None) if wanted.status == thread_status(None) else is_it)
    return found


def touch_thread(connection: Connection, thread_id: str, title: str | None) -> None:
    """Note activity; the first title the agent gives stays."""
    columns = {"updated_at": datetime.now(UTC)}
    connection.execute(update(threads).where(threads.c.thread_id == thread_id), columns)
    if title is not None:
        name_by_agent(connection, threads.c.thread_id == thread_id, title, is_first=True)


def rename_thread(connection: Connection, thread_id: str, owner: str, title: str) -> None:
    """Have the agent call the thread something else, if it is still there."""
    hold_thread(connection, thread_id)
    name_by_agent(connection, (threads.c.thread_id == thread_id) & (threads.c.owner == owner), title)


def name_by_agent(connection: Connection, which: ColumnElement[bool], title: str, *, is_first: bool = False) -> None:
    """Note what the agent calls a thread. While a person calls it something else, that is its title."""
    row = connection.execute(select(threads.c.title, threads.c.agent_title, threads.c.metadata).where(which)).first()
    if row is None:
        return
    is_given = given_title(row.metadata) is not None
    if is_first and (row.agent_title if is_given else row.title) is not None:
        return
    if is_given:
        connection.execute(update(threads).where(which).values(agent_title=title))
    else:
        name_thread(connection, which, title)


def name_by_person(connection: Connection, thread: ThreadRecord, metadata: Mapping[str, object]) -> None:
    """Have a thread be called what its new metadata say; where they say nothing, what the agent calls it."""
    which = (threads.c.thread_id == thread.thread_id) & (threads.c.owner == thread.owner)
    was_given, given = given_title(thread.metadata) is not None, given_title(metadata)
    if given is not None:
        if not was_given:
            connection.execute(update(threads).where(which).values(agent_title=threads.c.title))
        name_thread(connection, which, given)
    elif was_given:
        back = connection.execute(select(threads.c.agent_title).where(which)).scalar()
        connection.execute(update(threads).where(which).values(agent_title=None))
        name_thread(connection, which, back)


def name_thread(connection: Connection, which: ColumnElement[bool], title: str | None) -> None:
    """Give a thread its title, by which it can also be found."""
    naming = update(threads).where(which).values(title=title).returning(threads.c.thread_id, threads.c.owner)
    for named in connection.execute(naming).all():
        index_title(connection, named.thread_id, named.owner, title or "", datetime.now(UTC))


def given_title(metadata: Mapping[str, object]) -> str | None:
    """What a person calls a thread with such metadata; None when that is left to the agent."""
    title = metadata.get("title")
    return title.strip() or None if isinstance(title, str) else None


def merge_metadata(connection: Connection, thread_id: str, owner: str, metadata: Mapping[str, object]) -> ThreadRecord:
    """Add `metadata` to what the thread has; a `title` in it is the thread's title from then on."""
    hold_thread(connection, thread_id)
    known = find_thread(connection, thread_id, owner)
    merged = {**known.metadata, **metadata}
    mine = (threads.c.thread_id == thread_id) & (threads.c.owner == owner)
    connection.execute(update(threads).where(mine), {"metadata": merged})
    if "title" in metadata:
        name_by_person(connection, known, merged)
    return find_thread(connection, thread_id, owner)


def begin_thread(
    connection: Connection, thread_id: str, owner: str, metadata: Mapping[str, object], *, may_exist: bool
) -> ThreadRecord:
    """Make a thread, or find the one there is when it `may_exist`.

    Raises:
        Conflict: there is one and it may not.
    """
    if not thread_exists(connection, thread_id, owner):
        insert_thread(connection, thread_id, owner, metadata)
    elif not may_exist:
        raise Conflict(f"thread {thread_id!r} exists already")
    return find_thread(connection, thread_id, owner)


def with_status(owner: str) -> Select[tuple[object, ...]]:
    """The owner's threads, each with the status of its latest run and what that waits for."""
    return select(*threads.c, LATEST_RUN.label("run_status"), WAITS_FOR.label("waits_for")).where(
        threads.c.owner == owner
    )


def to_record(row: Row[tuple[object, ...]]) -> ThreadRecord:
    """A row in the words of the domain."""
    fields = dict(row._mapping)
    fields.pop("agent_title")
    return ThreadRecord(status=thread_status(fields.pop("run_status")), **fields)


def thread_status(run_status: str | None) -> ThreadStatus:
    """What the latest run makes of the thread."""
    if run_status in (RunStatus.PENDING, RunStatus.RUNNING):
        return "busy"
    if run_status == RunStatus.INTERRUPTED:
        return "interrupted"
    return "error" if run_status in (RunStatus.ERROR, RunStatus.TIMEOUT) else "idle"
