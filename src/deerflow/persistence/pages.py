"""Pages that agents have read, in the database: rows are added and never changed. The owner is part of every query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, insert, literal, select

from deerflow.domain.errors import NotFound
from deerflow.domain.pages import PageSnapshot
from deerflow.persistence.tables import web_pages as pages
from deerflow.persistence.tables import web_texts as texts
from deerflow.persistence.threads import find_thread, hold_thread

FIELDS = tuple(name for name in PageSnapshot.__slots__ if name != "is_kept")
COPIED = {table: [column for column in table.c if column.name != "thread_id"] for table in (texts, pages)}


@dataclass(frozen=True, slots=True)
class PageLimits:
    """How much of the web a thread holds at most."""

    pages: int = 2_000
    chars: int = 50_000_000


@dataclass(frozen=True, slots=True)
class Held:
    """How much of the web a thread holds."""

    pages: int
    chars: int


def keep_page(
    connection: Connection, owner: str, thread_id: str, page: PageSnapshot, text: str, limits: PageLimits
) -> PageSnapshot | None:
    """Keep a page, unless it is known; without its text where that would be too much, and not at all if there are many.

    Raises:
        NotFound: there is no such thread, or it is somebody else's.
    """
    hold_thread(connection, thread_id)
    find_thread(connection, thread_id, owner)
    if known := connection.execute(shown(owner, thread_id).where(pages.c.snapshot_id == page.snapshot_id)).first():
        return to_snapshot(known)
    held = held_by(connection, owner, thread_id)
    if held.pages >= limits.pages:
        return None
    mine = {"thread_id": thread_id, "owner": owner}
    has_text = page.text_hash is None or bool(found_texts(connection, owner, thread_id, [page.text_hash]))
    if not has_text and held.chars + page.chars <= limits.chars:
        given = {"text_hash": page.text_hash, "chars": page.chars, "text": text}
        connection.execute(insert(texts), {**mine, **given})
        has_text = True
    connection.execute(insert(pages), {**mine, **{name: getattr(page, name) for name in FIELDS}})
    return replace(page, is_kept=has_text)


def held_by(connection: Connection, owner: str, thread_id: str) -> Held:
    """How much of the web a thread holds."""
    counted = select(func.count()).select_from(pages).where(of(pages, owner, thread_id))
    summed = select(func.coalesce(func.sum(texts.c.chars), 0)).where(of(texts, owner, thread_id))
    return Held(connection.execute(counted).scalar_one(), int(connection.execute(summed).scalar_one()))


def list_pages(
    connection: Connection, owner: str, thread_id: str, limit: int | None = None, offset: int = 0
) -> Sequence[PageSnapshot]:
    """The pages of a thread, oldest first, or `NotFound`."""
    find_thread(connection, thread_id, owner)
    order = shown(owner, thread_id).order_by(pages.c.fetched_at, pages.c.snapshot_id)
    return [to_snapshot(row) for row in connection.execute(order.limit(limit).offset(offset))]


def find_page(connection: Connection, owner: str, thread_id: str, snapshot_id: str) -> tuple[PageSnapshot, str]:
    """A page with its text, which is empty where there is none, or `NotFound`."""
    find_thread(connection, thread_id, owner)
    row = connection.execute(shown(owner, thread_id).where(pages.c.snapshot_id == snapshot_id)).first()
    if row is None:
        raise NotFound(f"no page {snapshot_id!r} was read in thread {thread_id!r}")
    page = to_snapshot(row)
    text = read_texts(connection, owner, thread_id, [page.text_hash]) if page.text_hash else {}
    return page, next(iter(text.values()), "")


def read_texts(connection: Connection, owner: str, thread_id: str, hashes: Sequence[str]) -> dict[str, str]:
    """Texts of a thread by their hashes, as far as they are kept."""
    wanted = of(texts, owner, thread_id) & texts.c.text_hash.in_(hashes)
    return {
        row.text_hash: row.text for row in connection.execute(select(texts.c.text_hash, texts.c.text).where(wanted))
    }


def found_texts(connection: Connection, owner: str, thread_id: str, hashes: Sequence[str]) -> Sequence[str]:
    """Which of these texts are kept."""
    wanted = of(texts, owner, thread_id) & texts.c.text_hash.in_(hashes)
    return connection.execute(select(texts.c.text_hash).where(wanted)).scalars().all()


def copy_pages(connection: Connection, owner: str, thread_id: str, copy_id: str) -> None:
    """Give a thread the pages of another.

    Raises:
        NotFound: one of them is not there, or somebody else's.
    """
    for each in (thread_id, copy_id):
        find_thread(connection, each, owner)
    for table, columns in COPIED.items():
        rows = select(literal(copy_id), *columns).where(of(table, owner, thread_id))
        connection.execute(insert(table).from_select(["thread_id", *columns], rows))


def of(table: Any, owner: str, thread_id: str) -> ColumnElement[bool]:
    """That a row is the owner's, in this thread."""
    mine: ColumnElement[bool] = (table.c.thread_id == thread_id) & (table.c.owner == owner)
    return mine


def shown(owner: str, thread_id: str) -> Select[Any]:
    """What is told of the pages of a thread."""
    same = of(texts, owner, thread_id) & (texts.c.text_hash == pages.c.text_hash)
    is_kept = pages.c.text_hash.is_(None) | select(texts.c.text_hash).where(same).exists()
    return select(*(pages.c[name] for name in FIELDS), is_kept.label("is_kept")).where(of(pages, owner, thread_id))


def to_snapshot(row: Row[Any]) -> PageSnapshot:
    """A row in the words of the domain."""
    return PageSnapshot(**{**row._mapping, "is_kept": bool(row.is_kept)})
