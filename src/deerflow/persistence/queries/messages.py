"""Messages of a thread, read backwards from its end and only as far as needed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, func, or_, select

from deerflow.domain.runs import EventName
from deerflow.domain.taint import READ_URLS_MARK, UNTRUSTED_MARK, contains_url
from deerflow.domain.threads import COMPACTION, HistoryMessage, LogPosition
from deerflow.persistence.queries.events import iterate_latest_changes
from deerflow.persistence.tables import run_events, runs

LogEnd = LogPosition | datetime
"""End of what is read: an event, or a point in time."""
INTERRUPT = "__interrupt__"
NO_VALUES = b'"values":{}}'
"""End of the data of most `changes` events."""


@dataclass(frozen=True, slots=True)
class MessageCursor:
    """Position just before a message: the run, its event, and the index of the message within the event."""

    run_id: str
    seq: int
    index: int


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """Message in its latest version."""

    fields: Mapping[str, Any]
    run_id: str
    run_started_at: datetime
    created_at: datetime
    thought_ms: int | None
    """Duration of the model's reasoning before it answered."""
    took_ms: int | None
    """Duration of the call that the message is the result of."""
    left_behind_by: str | None
    """Run that started from an earlier checkpoint and so dropped this message from the conversation."""


@dataclass(frozen=True, slots=True)
class MessageSlice:
    """Messages in order, and the cursor of the previous page; None at the beginning of the thread."""

    messages: Sequence[StoredMessage]
    earlier: MessageCursor | None
    newest: MessageCursor | None
    """Event the page was read from: the newest of the thread, unless a cursor was given."""


@dataclass(frozen=True, slots=True)
class ChangesEvent:
    """Event of type `changes`. `branches`: its run started from an earlier checkpoint of the thread."""

    run_id: str
    seq: int
    data: bytes
    at: datetime
    branches: bool
    run_started_at: datetime
    is_compaction: bool
    """Its run only marks a message with the summary of those before it."""


def read_page(
    connection: Connection, thread_id: str, before: MessageCursor | None, limit: int, until: LogEnd | None = None
) -> MessageSlice:
    """Return the last `limit` messages of the thread, or the last before a cursor; with `until` as of then."""
    newest_first: dict[str, StoredMessage] = {}
    newest: MessageCursor | None = None
    compactions: set[str] = set()
    abandoned = find_abandoned_messages(connection, thread_id, before, until)
    for event, earlier in pair_with_older(iterate_changes_backwards(connection, thread_id, before, until)):
        newest = newest or MessageCursor(event.run_id, event.seq, 0)
        data = orjson.loads(event.data)
        if event.is_compaction:
            compactions.add(event.run_id)
        upto = before.index if before and (event.run_id, event.seq) == (before.run_id, before.seq) else None
        thought_ms, took_ms = data.get("thought_ms", {}), data.get("took_ms", {})
        for index, fields in reversed(list(enumerate(data["messages"][:upto]))):
            id_ = fields["id"]
            if len(newest_first) == limit and id_ not in newest_first:
                return MessageSlice(
                    list(reversed(newest_first.values())), MessageCursor(event.run_id, event.seq, index + 1), newest
                )
            message = newest_first.pop(id_, None) or StoredMessage(
                fields,
                event.run_id,
                event.run_started_at,
                event.at,
                thought_ms.get(id_),
                took_ms.get(id_),
                abandoned.get(id_),
            )
            if message.run_id in compactions:  # the run that it belongs to is an earlier one
                message = replace(
                    message, run_id=event.run_id, run_started_at=event.run_started_at, created_at=event.at
                )
            newest_first[id_] = message  # an updated message keeps its first position and has its last content
        if event.branches and (earlier is None or earlier.run_id != event.run_id):
            abandoned |= dict.fromkeys(data["removed"], event.run_id)
    return MessageSlice(list(reversed(newest_first.values())), None, newest)


def read_values(connection: Connection, thread_id: str, until: LogEnd | None = None) -> dict[str, object]:
    """Return the thread's state values besides messages, or those after an event or at a point in time."""
    newest = next(iterate_changes_backwards(connection, thread_id, None, until), None)
    if newest is None:
        return {}
    values: dict[str, object] = {}
    # Most events have no values: they are recognized by their end, before they are parsed.
    end = func.substr(run_events.c.data, func.length(run_events.c.data) - len(NO_VALUES) + 1)
    oldest_first = (
        select_changes_until(thread_id, until).where(end != NO_VALUES).order_by(runs.c.position, run_events.c.seq)
    )
    for row in connection.execute(oldest_first):
        values |= orjson.loads(row.data)["values"]
        if (row.run_id, row.seq) != (newest.run_id, newest.seq):
            values.pop(INTERRUPT, None)  # an interrupt is open only until the next event
    return values


def find_abandoned_messages(
    connection: Connection, thread_id: str, cursor: MessageCursor | None, until: LogEnd | None
) -> dict[str, str]:
    """Return the messages that runs after a cursor have dropped and not added again, each with its run."""
    if cursor is None:
        return {}
    abandoned: dict[str, str] = {}
    start = select(runs.c.position).where(runs.c.run_id == cursor.run_id).scalar_subquery()
    later = select_changes_until(thread_id, until).where(
        runs.c.position >= start, runs.c.request["checkpoint_id"].as_string().is_not(None)
    )
    oldest_first = later.order_by(runs.c.position, run_events.c.seq)
    seen: set[str] = set()
    for row in connection.execute(oldest_first):
        data = orjson.loads(row.data)
        if row.run_id not in seen:
            abandoned |= dict.fromkeys(data["removed"], row.run_id)
        seen.add(row.run_id)
        for fields in data["messages"]:
            abandoned.pop(fields["id"], None)
    return abandoned


def iterate_changes_backwards(
    connection: Connection, thread_id: str, before: MessageCursor | None, until: LogEnd | None
) -> Iterator[ChangesEvent]:
    """Yield the thread's `changes` events, newest first, from the one the cursor is in; rows are fetched on demand."""
    query = select_changes_until(thread_id, until).order_by(runs.c.position.desc(), run_events.c.seq.desc())
    if before is not None:
        start = select(runs.c.position).where(runs.c.run_id == before.run_id).scalar_subquery()
        same_run = (runs.c.run_id == before.run_id) & (run_events.c.seq <= before.seq)
        query = query.where(or_(runs.c.position < start, same_run))
    with connection.execute(query.execution_options(yield_per=100)) as rows:
        for row in rows:
            has_start = row.checkpoint_id is not None
            yield ChangesEvent(
                row.run_id, row.seq, row.data, row.created_at, has_start, row.run_started_at, row.source == COMPACTION
            )


def select_changes_until(thread_id: str, until: LogEnd | None) -> Any:
    """Select the `changes` events of a thread, or those up to an event or a point in time."""
    changes: EventName = "changes"
    began_at = runs.c.request["checkpoint_id"].as_string().label("checkpoint_id")
    started_at = runs.c.created_at.label("run_started_at")
    source = runs.c.metadata["source"].as_string().label("source")
    event = (run_events.c.run_id, run_events.c.seq, run_events.c.data, run_events.c.created_at)
    query = (
        select(*event, began_at, started_at, source)
        .join(runs, runs.c.run_id == run_events.c.run_id)
        .where(runs.c.thread_id == thread_id, run_events.c.event == changes)
    )
    if until is None:
        return query
    if isinstance(until, datetime):
        return query.where(run_events.c.created_at <= until)
    same_run = (runs.c.position == until.run_position) & (run_events.c.seq <= until.event_seq)
    return query.where(or_(runs.c.position < until.run_position, same_run))


def read_log_end(connection: Connection, thread_id: str) -> LogPosition:
    """Return the place of the latest event of a thread; clocks may be wrong, places are not."""
    of_thread = runs.c.thread_id == thread_id
    has_events = select(run_events.c.run_id).where(run_events.c.run_id == runs.c.run_id).exists()
    latest = select(runs.c.run_id, runs.c.position).where(of_thread, has_events).order_by(runs.c.position.desc())
    run = connection.execute(latest.limit(1)).first()
    if run is None:
        return LogPosition(0, 0)
    seq = connection.execute(select(func.max(run_events.c.seq)).where(run_events.c.run_id == run.run_id)).scalar_one()
    return LogPosition(run.position, seq)


def pair_with_older(events: Iterator[ChangesEvent]) -> Iterator[tuple[ChangesEvent, ChangesEvent | None]]:
    """Yield each event with the next older one."""
    newer = next(events, None)
    for older in events:
        assert newer is not None
        yield newer, older
        newer = older
    if newer is not None:
        yield newer, None


EXCERPT_CHARS = 500
MAX_SEARCH_BYTES = 256 * 2**20
"""Maximum bytes of the journal that one search reads."""
HISTORY_TOOL = "search_history"
"""Tool whose results repeat earlier messages."""


def find_messages(connection: Connection, thread_id: str, words: Sequence[str], limit: int) -> Sequence[HistoryMessage]:
    """Return at most `limit` messages of the thread that contain all `words`, each in its latest version."""
    found: dict[str, HistoryMessage] = {}
    needles = [word.encode() for word in words if _is_unescaped_in_json(word)]
    read = 0
    for data, created_at in iterate_latest_changes(connection, thread_id):
        read += len(data)
        if len(found) >= limit or read > MAX_SEARCH_BYTES:
            break
        folded = data.lower()
        if all(needle in folded for needle in needles):  # parsing is expensive, and most events do not match
            for id_, excerpt in _find_excerpts(data, created_at, words):
                found.setdefault(id_, excerpt)
    return list(found.values())[:limit]


def mentions_address(connection: Connection, thread_id: str, address: str) -> bool:
    """Return whether an address occurs in a user's message of the thread or in content known to be untrusted."""
    host = address.partition("/")[0].partition("?")[0].partition("#")[0].encode()
    read = 0
    for data, _ in iterate_latest_changes(connection, thread_id):
        read += len(data)
        if read > MAX_SEARCH_BYTES:
            break
        if host in data.lower() and any(
            _is_known_address(message, address) for message in orjson.loads(data)["messages"]
        ):
            return True
    return False


def _is_known_address(message: Mapping[str, Any], address: str) -> bool:
    extras = message["additional_kwargs"]
    if address in extras.get(READ_URLS_MARK, ()):
        return True
    is_by_user = message["type"] == "human" and not extras.get("hide_from_ui")
    return (is_by_user or bool(extras.get(UNTRUSTED_MARK))) and contains_url(_read_text(message), address)


def _is_unescaped_in_json(word: str) -> bool:
    """Return whether `word` is encoded unchanged in JSON, apart from the case of ASCII letters."""
    return (word.isascii() or word.upper() == word) and word.isprintable() and not {'"', "\\"} & set(word)


def _find_excerpts(data: bytes, created_at: datetime, words: Sequence[str]) -> Iterator[tuple[str, HistoryMessage]]:
    for message in reversed(orjson.loads(data)["messages"]):
        text = _read_text(message)
        folded = text.lower()
        if not _is_repeated(message) and all(word in folded for word in words):
            position = min(folded.index(word) for word in words)
            yield message["id"], HistoryMessage(message["type"], _cut_around(text, position), created_at)


def _is_repeated(message: Mapping[str, Any]) -> bool:
    return message.get("name") == HISTORY_TOOL or bool(message["additional_kwargs"].get("hide_from_ui"))


def _read_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message and of its tool calls."""
    content = message["content"]
    parts = [content] if isinstance(content, str) else _read_blocks(content)
    calls = (f"{call['name']}({orjson.dumps(call['args']).decode()})" for call in message.get("tool_calls") or ())
    return "\n".join([*filter(None, parts), *(call for call in calls if not call.startswith(HISTORY_TOOL))])


def _read_blocks(blocks: Iterable[Any]) -> Iterator[str]:
    for block in blocks:
        text = block.get("text") if isinstance(block, Mapping) else block
        if isinstance(text, str):
            yield text


def _cut_around(text: str, position: int) -> str:
    """Return the part of `text` around a position."""
    if len(text) <= EXCERPT_CHARS:
        return text
    start = max(0, min(position - EXCERPT_CHARS // 4, len(text) - EXCERPT_CHARS))
    part = text[start : start + EXCERPT_CHARS - 2]
    return f"{'…' if start else ''}{part}{'…' if start + len(part) < len(text) else ''}"
