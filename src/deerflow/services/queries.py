"""SQL of the services: feedback, web pages, share links, profiles and the key-value store."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.runs import RunFeedback, RunFeedbackStats
from deerflow.domain.threads import LogPosition, Namespace, ShareLink, StoredItem
from deerflow.domain.web_pages import PageSnapshot
from deerflow.persistence.queries.messages import read_log_end
from deerflow.persistence.queries.runs import find_run
from deerflow.persistence.queries.threads import find_thread, lock_thread, match_json
from deerflow.persistence.tables import feedback, shares, threads, to_key, user_profiles
from deerflow.persistence.tables import store_items as items
from deerflow.persistence.tables import web_pages as pages
from deerflow.persistence.tables import web_texts as texts


def put_feedback(connection: Connection, new: RunFeedback, *, may_exist: bool) -> RunFeedback:
    """Insert feedback; replace the existing one when it `may_exist`.

    Raises:
        NotFound: The run does not exist, or has another owner.
        Conflict: There is feedback already, and it may not exist.
    """
    find_run(connection, new.thread_id, new.run_id, new.owner)
    message_id = to_key(new.message_id or "")
    owned = match_run(new.thread_id, new.run_id, new.owner) & (feedback.c.message_id == message_id)
    changes = {"rating": new.rating, "comment": new.comment, "updated_at": new.updated_at}
    known = connection.execute(select(feedback.c.feedback_id).where(owned)).scalar()
    if known is None:
        connection.execute(insert(feedback), {**asdict(new), "message_id": message_id})
    elif may_exist:
        connection.execute(update(feedback).where(owned), changes)
    else:
        raise Conflict(f"feedback {known!r} already exists; change it with PUT")
    return to_feedback(connection.execute(select(feedback).where(owned)).one())


def list_feedback(connection: Connection, thread_id: str, run_id: str, owner: str) -> Sequence[RunFeedback]:
    """Return the owner's feedback on a run, oldest first, or raise `NotFound`."""
    find_run(connection, thread_id, run_id, owner)
    query = select(feedback).where(match_run(thread_id, run_id, owner))
    return [to_feedback(row) for row in connection.execute(query.order_by(feedback.c.created_at))]


def list_thread_feedback(connection: Connection, thread_id: str, owner: str) -> Sequence[RunFeedback]:
    """Return the owner's feedback on all runs of a thread, oldest first, or raise `NotFound`."""
    find_thread(connection, thread_id, owner)
    query = select(feedback).where(feedback.c.thread_id == thread_id, feedback.c.owner == owner)
    return [to_feedback(row) for row in connection.execute(query.order_by(feedback.c.created_at))]


def count_feedback(connection: Connection, thread_id: str, run_id: str, owner: str) -> RunFeedbackStats:
    """Return the numbers of ratings of a run, or raise `NotFound`."""
    find_run(connection, thread_id, run_id, owner)
    query = select(feedback.c.rating, func.count()).where(match_run(thread_id, run_id, owner))
    found = {row[0]: row[1] for row in connection.execute(query.group_by(feedback.c.rating))}
    return RunFeedbackStats(sum(found.values()), found.get(1, 0), found.get(-1, 0))


def delete_feedback(
    connection: Connection, thread_id: str, run_id: str, owner: str, feedback_id: str | None = None
) -> None:
    """Delete one of the owner's feedback entries on a run, or all.

    Raises:
        NotFound: The run or feedback does not exist.
    """
    find_run(connection, thread_id, run_id, owner)
    which = match_run(thread_id, run_id, owner)
    if feedback_id is not None:
        which &= feedback.c.feedback_id == feedback_id
    if connection.execute(delete(feedback).where(which)).rowcount == 0:
        raise NotFound(
            f"no feedback {feedback_id!r} on run {run_id!r}" if feedback_id else f"no feedback on {run_id!r}"
        )


def match_run(thread_id: str, run_id: str, owner: str) -> ColumnElement[bool]:
    """Return the condition that feedback is the owner's and on this run."""
    return (feedback.c.run_id == run_id) & (feedback.c.thread_id == thread_id) & (feedback.c.owner == owner)


def to_feedback(row: Row[Any]) -> RunFeedback:
    """Convert a row to feedback."""
    return RunFeedback(**{**row._mapping, "message_id": row.message_id or None})


PAGE_FIELDS = tuple(name for name in PageSnapshot.__slots__ if name != "is_kept")
COPIED_COLUMNS = {table: [column for column in table.c if column.name != "thread_id"] for table in (texts, pages)}


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Maximum number and size of the web pages of a thread."""

    pages: int = 2_000
    chars: int = 50_000_000


@dataclass(frozen=True, slots=True)
class PageTotals:
    """Number and size of the web pages of a thread."""

    pages: int
    chars: int


def store_page(
    connection: Connection, owner: str, thread_id: str, page: PageSnapshot, text: str, limits: PageLimits
) -> PageSnapshot | None:
    """Insert a page unless it is known; without its text above the size limit, and not at all above the number limit.

    Raises:
        NotFound: The thread does not exist, or has another owner.
    """
    lock_thread(connection, thread_id)
    find_thread(connection, thread_id, owner)
    if known := connection.execute(
        select_pages(owner, thread_id).where(pages.c.snapshot_id == page.snapshot_id)
    ).first():
        return to_snapshot(known)
    totals = count_pages(connection, owner, thread_id)
    if totals.pages >= limits.pages:
        return None
    owned = {"thread_id": thread_id, "owner": owner}
    has_text = page.text_hash is None or bool(list_stored_hashes(connection, owner, thread_id, [page.text_hash]))
    if not has_text and totals.chars + page.chars <= limits.chars:
        new = {"text_hash": page.text_hash, "chars": page.chars, "text": text}
        connection.execute(insert(texts), {**owned, **new})
        has_text = True
    # The thread is locked, so the position is above those of its other pages.
    of_thread = match_thread(pages, owner, thread_id)
    position = select(func.coalesce(func.max(pages.c.position), 0) + 1).where(of_thread).scalar_subquery()
    row = {**owned, **{name: getattr(page, name) for name in PAGE_FIELDS}}
    connection.execute(insert(pages).values(position=position), row)
    return replace(page, is_kept=has_text)


def count_pages(connection: Connection, owner: str, thread_id: str) -> PageTotals:
    """Return number and size of the web pages of a thread."""
    counted = select(func.count()).select_from(pages).where(match_thread(pages, owner, thread_id))
    summed = select(func.coalesce(func.sum(texts.c.chars), 0)).where(match_thread(texts, owner, thread_id))
    return PageTotals(connection.execute(counted).scalar_one(), int(connection.execute(summed).scalar_one()))


def list_pages(
    connection: Connection, owner: str, thread_id: str, limit: int | None = None, offset: int = 0
) -> Sequence[PageSnapshot]:
    """Return the pages of a thread, oldest first, or raise `NotFound`."""
    find_thread(connection, thread_id, owner)
    order = select_pages(owner, thread_id).order_by(pages.c.position, pages.c.snapshot_id)
    return [to_snapshot(row) for row in connection.execute(order.limit(limit).offset(offset))]


def find_page(connection: Connection, owner: str, thread_id: str, snapshot_id: str) -> tuple[PageSnapshot, str]:
    """Return a page with its text, which is empty if it is not stored, or raise `NotFound`."""
    find_thread(connection, thread_id, owner)
    row = connection.execute(select_pages(owner, thread_id).where(pages.c.snapshot_id == snapshot_id)).first()
    if row is None:
        raise NotFound(f"no page {snapshot_id!r} in thread {thread_id!r}")
    page = to_snapshot(row)
    text = read_texts(connection, owner, thread_id, [page.text_hash]) if page.text_hash else {}
    return page, next(iter(text.values()), "")


def read_texts(connection: Connection, owner: str, thread_id: str, hashes: Sequence[str]) -> dict[str, str]:
    """Return the stored texts of a thread by hash."""
    wanted = match_thread(texts, owner, thread_id) & texts.c.text_hash.in_(hashes)
    return {
        row.text_hash: row.text for row in connection.execute(select(texts.c.text_hash, texts.c.text).where(wanted))
    }


def list_stored_hashes(connection: Connection, owner: str, thread_id: str, hashes: Sequence[str]) -> Sequence[str]:
    """Return the hashes whose texts are stored."""
    wanted = match_thread(texts, owner, thread_id) & texts.c.text_hash.in_(hashes)
    return connection.execute(select(texts.c.text_hash).where(wanted)).scalars().all()


def copy_pages(connection: Connection, owner: str, thread_id: str, copy_id: str) -> None:
    """Copy the pages of a thread to another.

    Raises:
        NotFound: One of them does not exist, or has another owner.
    """
    for each in (thread_id, copy_id):
        find_thread(connection, each, owner)
    for table, columns in COPIED_COLUMNS.items():
        rows = select(literal(copy_id), *columns).where(match_thread(table, owner, thread_id))
        connection.execute(insert(table).from_select(["thread_id", *columns], rows))


def match_thread(table: Any, owner: str, thread_id: str) -> ColumnElement[bool]:
    """Return the condition that a row is the owner's and of this thread."""
    owned: ColumnElement[bool] = (table.c.thread_id == thread_id) & (table.c.owner == owner)
    return owned


def select_pages(owner: str, thread_id: str) -> Select[Any]:
    """Select the pages of a thread."""
    same = match_thread(texts, owner, thread_id) & (texts.c.text_hash == pages.c.text_hash)
    is_kept = pages.c.text_hash.is_(None) | select(texts.c.text_hash).where(same).exists()
    return select(*(pages.c[name] for name in PAGE_FIELDS), is_kept.label("is_kept")).where(
        match_thread(pages, owner, thread_id)
    )


def to_snapshot(row: Row[Any]) -> PageSnapshot:
    """Convert a row to a snapshot."""
    return PageSnapshot(**{**row._mapping, "is_kept": bool(row.is_kept)})


MAX_SHARES = 100
"""Maximum number of share links of a thread."""


def insert_share(connection: Connection, new: ShareLink, token_hash: str) -> ShareLink:
    """Insert a share link.

    Raises:
        NotFound: The thread does not exist, or has another owner.
        Conflict: The thread has too many links.
    """
    lock_thread(connection, new.thread_id)
    find_thread(connection, new.thread_id, new.owner)
    owned = (shares.c.thread_id == new.thread_id) & (shares.c.owner == new.owner)
    if (connection.execute(select(func.count()).where(owned)).scalar() or 0) >= MAX_SHARES:
        raise Conflict(f"thread {new.thread_id!r} has {MAX_SHARES} share links already; revoke some of them")
    end = read_log_end(connection, new.thread_id)
    row = {name: getattr(new, name) for name in ShareLink.__slots__ if name != "end"}
    place = {"run_position": end.run_position, "event_seq": end.event_seq}
    connection.execute(insert(shares), {**row, **place, "token_hash": token_hash})
    return replace(new, end=end)


def list_shares(connection: Connection, thread_id: str, owner: str) -> Sequence[ShareLink]:
    """Return the owner's links to a thread, newest first, or raise `NotFound`."""
    find_thread(connection, thread_id, owner)
    owned = select(shares).where(shares.c.thread_id == thread_id, shares.c.owner == owner)
    return [
        to_share(row._mapping)
        for row in connection.execute(owned.order_by(shares.c.created_at.desc(), shares.c.share_id))
    ]


def delete_share(connection: Connection, thread_id: str, owner: str, share_id: str) -> None:
    """Delete a share link.

    Raises:
        NotFound: It does not exist, or has another owner.
    """
    which = (shares.c.share_id == share_id) & (shares.c.thread_id == thread_id) & (shares.c.owner == owner)
    if connection.execute(delete(shares).where(which)).rowcount == 0:
        raise NotFound(f"no link {share_id!r} to thread {thread_id!r}")


def find_share(connection: Connection, token_hash: str, now: datetime) -> tuple[ShareLink, str | None] | None:
    """Return the link of a token hash and the title of its thread; None when it does not exist or has expired.

    Links of a thread that is being deleted end at once, because the thread has no owner any more.
    """
    is_valid = shares.c.expires_at.is_(None) | (shares.c.expires_at > now)
    query = (
        select(*shares.c, threads.c.title)
        .join(threads, (threads.c.thread_id == shares.c.thread_id) & (threads.c.owner == shares.c.owner))
        .where(shares.c.token_hash == token_hash, is_valid)
    )
    row = connection.execute(query).first()
    return None if row is None else (to_share(row._mapping), row.title)


def to_share(row: RowMapping) -> ShareLink:
    """Convert a row to a share link."""
    is_old = row["run_position"] is None
    end = None if is_old else LogPosition(row["run_position"], row["event_seq"])
    return ShareLink(**{name: row[name] for name in ShareLink.__slots__ if name != "end"}, end=end)


FIND_PROFILE = select(user_profiles.c.content).where(user_profiles.c.owner == bindparam("of_owner"))


def read_profile(connection: Connection, owner: str) -> str:
    """Return the profile of a user; empty when there is none."""
    return connection.execute(FIND_PROFILE, {"of_owner": owner}).scalar() or ""


def write_profile(connection: Connection, owner: str, content: str) -> None:
    """Replace the profile of a user; an empty text deletes it."""
    connection.execute(delete(user_profiles).where(user_profiles.c.owner == owner))
    if content:
        row = {"owner": owner, "content": content, "updated_at": datetime.now(UTC)}
        connection.execute(insert(user_profiles), row)


def put_item(connection: Connection, owner: str, namespace: Namespace, key: str, value: Mapping[str, object]) -> None:
    """Store a value under `key`; replace the value that was there."""
    now = datetime.now(UTC)
    content = {"value": dict(value), "updated_at": now}
    found = connection.execute(update(items).where(*match_item(owner, namespace, key)), content).rowcount
    if not found:  # two inserts at once: PostgreSQL refuses the second, which is tried again
        row = {"owner": owner, "namespace": join_namespace(namespace), "key": key, "created_at": now, **content}
        connection.execute(insert(items), row)


def get_item(connection: Connection, owner: str, namespace: Namespace, key: str) -> StoredItem | None:
    """Return the item under `key`, None when there is none."""
    row = connection.execute(select(items).where(*match_item(owner, namespace, key))).first()
    return to_item(row) if row else None


def delete_item(connection: Connection, owner: str, namespace: Namespace, key: str) -> None:
    """Delete the item under `key`, if there is one."""
    connection.execute(delete(items).where(*match_item(owner, namespace, key)))


def search_items(
    connection: Connection, owner: str, prefix: Namespace, wanted: Mapping[str, object], limit: int, offset: int
) -> Sequence[StoredItem]:
    """Return the items below `prefix` whose values match `wanted`, oldest first."""
    query = select(items).where(items.c.owner == owner, *match_prefix(prefix), *match_json(items.c.value, wanted))
    ordered = query.order_by(items.c.created_at, items.c.namespace, items.c.key)
    return [to_item(row) for row in connection.execute(ordered.limit(limit).offset(offset))]


def list_namespaces(connection: Connection, owner: str, prefix: Namespace) -> Sequence[Namespace]:
    """Return the namespaces below `prefix` that hold items, sorted by name."""
    query = select(items.c.namespace).distinct().where(items.c.owner == owner, *match_prefix(prefix))
    return [tuple(name.split(".")) for name in connection.execute(query.order_by(items.c.namespace)).scalars()]


def match_item(owner: str, namespace: Namespace, key: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that match one item."""
    return items.c.owner == owner, items.c.namespace == join_namespace(namespace), items.c.key == key


def match_prefix(prefix: Namespace) -> list[ColumnElement[bool]]:
    """Return the conditions that match items in `prefix` or below it."""
    if not prefix:
        return []
    name = join_namespace(prefix)
    return [(items.c.namespace == name) | items.c.namespace.startswith(f"{name}.", autoescape=True)]


def join_namespace(namespace: Namespace) -> str:
    """Return a namespace as the table stores it."""
    return ".".join(namespace)


def to_item(row: Row[Any]) -> StoredItem:
    """Convert a row to an item."""
    return StoredItem(tuple(row.namespace.split(".")), row.key, row.value, row.created_at, row.updated_at)
