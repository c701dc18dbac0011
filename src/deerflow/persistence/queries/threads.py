"""Threads. Every query is restricted to an owner."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    Text,
    bindparam,
    cast,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.types import JSON

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.identity import DELETED_OWNER
from deerflow.domain.runs import RunStatus
from deerflow.domain.threads import TEMPORARY, ThreadFilter, ThreadRecord, ThreadStatus
from deerflow.persistence.queries.search import has_temporary_mark, index_title
from deerflow.persistence.tables import runs, threads

MAX_FILTER_KEYS = 50
MAX_FILTER_IDS = 1000


def match_json(column: ColumnElement[JSON], wanted: Mapping[str, object]) -> list[ColumnElement[bool]]:
    """Return the conditions that the object in `column` has these top-level values.

    Raises:
        InvalidRequest: There are too many, or a value is not a string, number or boolean.
    """
    if len(wanted) > MAX_FILTER_KEYS:
        raise InvalidRequest(f"cannot filter by {len(wanted)} keys; use at most {MAX_FILTER_KEYS}")
    return [match_json_value(column, key, value) for key, value in wanted.items()]


def match_json_value(column: ColumnElement[JSON], key: str, value: object) -> ColumnElement[bool]:
    """Return the condition that the object in `column` has `value` under `key`, compared as text."""
    if any(character in key for character in '"\\\0'):
        raise InvalidRequest(f"cannot filter by key {key!r}; remove quotes, backslashes and null characters")
    return cast(column[key].as_string(), Text).in_(to_json_texts(key, value))


def to_json_texts(key: str, value: object) -> list[str]:
    """Return the texts by which databases represent a value."""
    if isinstance(value, bool):
        return ["true", "1"] if value else ["false", "0"]
    if isinstance(value, str) and "\0" not in value:
        return [value]
    if isinstance(value, int | float):
        return [orjson.dumps(value).decode()]
    raise InvalidRequest(
        f"cannot filter {key!r} by {value!r}; use a string without null characters, a number or a boolean"
    )


def select_from_latest_run(column: Column[Any]) -> ScalarSelect[Any]:
    """Select a column of a thread's latest run."""
    of_thread = runs.c.thread_id == threads.c.thread_id
    return select(column).where(of_thread).order_by(runs.c.position.desc()).limit(1).scalar_subquery()


LATEST_RUN_STATUS = select_from_latest_run(runs.c.status)
"""Status of a thread's latest run."""
WAITS_FOR = select_from_latest_run(runs.c.waits_for)
"""User action that a thread's latest run waits for."""


LATEST = threads.alias()
"""The table under a second name; to make one, SQLAlchemy copies all columns."""


def next_activity() -> ScalarSelect[int]:
    """Return a number above those of all threads; the database finds it in the index."""
    return select(func.coalesce(func.max(LATEST.c.activity), 0) + 1).scalar_subquery()


# Statements of every run are built once: building one takes longer than SQLite takes to execute it.
INSERT_THREAD = insert(threads).values(activity=next_activity())
TOUCH_THREAD = update(threads).where(threads.c.thread_id == bindparam("thread")).values(activity=next_activity())
LOCK_THREAD = select(threads.c.owner).where(threads.c.thread_id == bindparam("thread")).with_for_update(key_share=True)


def insert_thread(
    connection: Connection,
    thread_id: str,
    owner: str,
    metadata: Mapping[str, object],
    title: str | None = None,
    project_id: str | None = None,
) -> None:
    """Insert a thread; `title` is the generated title, shown unless the metadata has one by the user."""
    now, user_title = datetime.now(UTC), read_user_title(metadata)
    titles = {"title": title} if user_title is None else {"title": user_title, "agent_title": title}
    row = {"thread_id": thread_id, "owner": owner, "metadata": dict(metadata), "created_at": now, "updated_at": now}
    connection.execute(INSERT_THREAD, {**row, **titles, "project_id": project_id})
    if titles["title"] is not None and not has_temporary_mark(metadata):
        index_title(connection, thread_id, owner, titles["title"], now, is_new=True)


def thread_exists(connection: Connection, thread_id: str, owner: str) -> bool:
    """Return whether `owner` has the thread; lock it until the end of the transaction.

    Raises:
        NotFound: It has another owner.
        Conflict: It is being deleted.
    """
    found = connection.execute(LOCK_THREAD, {"thread": thread_id}).scalar()
    if found == DELETED_OWNER:
        raise Conflict(f"thread {thread_id!r} is being deleted; try again in a moment")
    if found not in (None, owner):
        raise NotFound(f"no thread {thread_id!r}")
    return found is not None


def find_owner(connection: Connection, thread_id: str) -> str:
    """Return the owner of a thread, for administrators, or raise `NotFound`."""
    found: str | None = connection.execute(select(threads.c.owner).where(threads.c.thread_id == thread_id)).scalar()
    if found is None or found == DELETED_OWNER:
        raise NotFound(f"no thread {thread_id!r}")
    return found


def lock_thread(connection: Connection, thread_id: str) -> None:
    """Lock a thread until the end of the transaction, so that no other process starts or ends a run of it."""
    if connection.dialect.name != "sqlite":  # SQLite has one writer at a time anyway
        connection.execute(LOCK_THREAD, {"thread": thread_id})


def find_thread(connection: Connection, thread_id: str, owner: str) -> ThreadRecord:
    """Return a thread.

    Raises:
        NotFound: It does not exist, or has another owner.
    """
    row = connection.execute(select_with_status(owner).where(threads.c.thread_id == thread_id)).first()
    if row is None:
        raise NotFound(f"no thread {thread_id!r}")
    return to_thread_record(row)


def search_threads(
    connection: Connection, owner: str, limit: int, offset: int, wanted: ThreadFilter = ThreadFilter()
) -> Sequence[ThreadRecord]:
    """Return the owner's threads that match the filter."""
    instead = {"status": LATEST_RUN_STATUS, "updated_at": threads.c.activity}  # the clock may have been set
    column = instead[wanted.sort_by] if wanted.sort_by in instead else threads.c[wanted.sort_by]
    order = column.asc() if wanted.ascending else column.desc()
    found = select_with_status(owner).where(*build_conditions(wanted)).order_by(order, threads.c.thread_id)
    return [to_thread_record(row) for row in connection.execute(found.limit(limit).offset(offset))]


def count_threads(connection: Connection, owner: str, wanted: ThreadFilter) -> int:
    """Return the number of the owner's threads that match the filter."""
    found = select(func.count()).select_from(threads).where(threads.c.owner == owner, *build_conditions(wanted))
    return connection.execute(found).scalar() or 0


def build_conditions(wanted: ThreadFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of a filter. Temporary threads match only if it asks for them, or for ids."""
    conditions = match_json(threads.c.metadata, wanted.metadata)
    if wanted.ids is None and TEMPORARY not in wanted.metadata:
        conditions.append(match_json_value(threads.c.metadata, TEMPORARY, True).isnot(True))
    if wanted.ids is not None:
        if len(wanted.ids) > MAX_FILTER_IDS:
            raise InvalidRequest(f"cannot filter by {len(wanted.ids)} ids; use at most {MAX_FILTER_IDS}")
        conditions.append(threads.c.thread_id.in_(wanted.ids))
    if wanted.status is not None:
        statuses = [status for status in RunStatus if to_thread_status(status) == wanted.status]
        has_status = LATEST_RUN_STATUS.in_(statuses)
        conditions.append(
            has_status | LATEST_RUN_STATUS.is_(None) if wanted.status == to_thread_status(None) else has_status
        )
    if wanted.has_messages is not None:
        begun = LATEST_RUN_STATUS.is_not(None) | threads.c.title.is_not(None)
        conditions.append(begun if wanted.has_messages else ~begun)
    if wanted.project_id is not None:
        column = threads.c.project_id
        conditions.append(column == wanted.project_id if wanted.project_id else column.is_(None))
    return conditions


def touch_thread(connection: Connection, thread_id: str, title: str | None) -> None:
    """Update the time of the last activity, and set the generated title if there is none yet."""
    connection.execute(TOUCH_THREAD, {"thread": thread_id, "updated_at": datetime.now(UTC)})
    if title is not None:
        set_agent_title(connection, threads.c.thread_id == thread_id, title, is_first=True)


def rename_thread(connection: Connection, thread_id: str, owner: str, title: str) -> None:
    """Replace the generated title of a thread, if the thread still exists."""
    lock_thread(connection, thread_id)
    set_agent_title(connection, (threads.c.thread_id == thread_id) & (threads.c.owner == owner), title)


def adopt_title(connection: Connection, thread_id: str, owner: str, title: str) -> None:
    """Take the title that a run has left in the state as the generated title, unless it is shown already."""
    lock_thread(connection, thread_id)
    if read_title(connection, thread_id) != title:
        set_agent_title(connection, (threads.c.thread_id == thread_id) & (threads.c.owner == owner), title)


def read_title(connection: Connection, thread_id: str) -> str | None:
    """Return the title of a thread, None when it has none."""
    title: str | None = connection.execute(select(threads.c.title).where(threads.c.thread_id == thread_id)).scalar()
    return title


def set_agent_title(connection: Connection, which: ColumnElement[bool], title: str, *, is_first: bool = False) -> None:
    """Set the generated title of a thread. It is shown unless the user has set a title."""
    row = connection.execute(select(threads.c.title, threads.c.agent_title, threads.c.metadata).where(which)).first()
    if row is None:
        return
    has_user_title = read_user_title(row.metadata) is not None
    if is_first and (row.agent_title if has_user_title else row.title) is not None:
        return
    if has_user_title:
        connection.execute(update(threads).where(which).values(agent_title=title))
    else:
        set_title(connection, which, title)


def set_user_title(connection: Connection, thread: ThreadRecord, metadata: Mapping[str, object]) -> None:
    """Apply the title in new metadata; without one, show the generated title again."""
    which = (threads.c.thread_id == thread.thread_id) & (threads.c.owner == thread.owner)
    had_user_title, user_title = read_user_title(thread.metadata) is not None, read_user_title(metadata)
    if user_title is not None:
        if not had_user_title:
            connection.execute(update(threads).where(which).values(agent_title=threads.c.title))
        set_title(connection, which, user_title)
    elif had_user_title:
        generated = connection.execute(select(threads.c.agent_title).where(which)).scalar()
        connection.execute(update(threads).where(which).values(agent_title=None))
        set_title(connection, which, generated)


def set_title(connection: Connection, which: ColumnElement[bool], title: str | None) -> None:
    """Set the shown title of a thread, and index it."""
    statement = update(threads).where(which).values(title=title).returning(threads.c.thread_id, threads.c.owner)
    for thread in connection.execute(statement).all():
        index_title(connection, thread.thread_id, thread.owner, title or "", datetime.now(UTC))


def read_user_title(metadata: Mapping[str, object]) -> str | None:
    """Return the title that the user has set in the metadata, None when there is none."""
    title = metadata.get("title")
    return title.strip() or None if isinstance(title, str) else None


def merge_metadata(connection: Connection, thread_id: str, owner: str, metadata: Mapping[str, object]) -> ThreadRecord:
    """Merge `metadata` into that of the thread; a `title` in it becomes the thread's title."""
    lock_thread(connection, thread_id)
    known = find_thread(connection, thread_id, owner)
    merged = {**known.metadata, **metadata}
    owned = (threads.c.thread_id == thread_id) & (threads.c.owner == owner)
    connection.execute(update(threads).where(owned), {"metadata": merged})
    if "title" in metadata:
        set_user_title(connection, known, merged)
    return find_thread(connection, thread_id, owner)


def create_thread(
    connection: Connection, thread_id: str, owner: str, metadata: Mapping[str, object], *, may_exist: bool
) -> ThreadRecord:
    """Create a thread, or return the existing one when it `may_exist`.

    Raises:
        Conflict: It exists and may not.
    """
    if not thread_exists(connection, thread_id, owner):
        insert_thread(connection, thread_id, owner, metadata)
    elif not may_exist:
        raise Conflict(f"thread {thread_id!r} already exists")
    return find_thread(connection, thread_id, owner)


def select_with_status(owner: str) -> Select[tuple[object, ...]]:
    """Select the owner's threads with the status of the latest run and what it waits for."""
    return select(*threads.c, LATEST_RUN_STATUS.label("run_status"), WAITS_FOR.label("waits_for")).where(
        threads.c.owner == owner
    )


def to_thread_record(row: Row[tuple[object, ...]]) -> ThreadRecord:
    """Convert a row to a record."""
    return build_thread_record(row._mapping)


def build_thread_record(columns: Mapping[Any, Any]) -> ThreadRecord:
    """Return the record of the columns of a thread."""
    fields = dict(columns)
    del fields["agent_title"], fields["activity"]
    return ThreadRecord(status=to_thread_status(fields.pop("run_status")), **fields)


def to_thread_status(run_status: str | None) -> ThreadStatus:
    """Return the status of a thread whose latest run has this status."""
    if run_status in (RunStatus.PENDING, RunStatus.RUNNING):
        return "busy"
    if run_status == RunStatus.INTERRUPTED:
        return "interrupted"
    return "error" if run_status in (RunStatus.ERROR, RunStatus.TIMEOUT) else "idle"
