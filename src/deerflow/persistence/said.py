"""What was said in a thread, read backwards from its end and no further than a reader wants."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, func, or_, select

from deerflow.domain.events import EventName
from deerflow.persistence.tables import run_events, runs

INTERRUPT = "__interrupt__"
NO_VALUES = b'"values":{}}'
"""How the data of most `changes` events ends."""


@dataclass(frozen=True, slots=True)
class Place:
    """Just before a message: the run and the event that tell it, and which of the event's messages it is."""

    run_id: str
    seq: int
    index: int


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it was last told."""

    fields: Mapping[str, Any]
    run_id: str
    said_at: datetime
    thought_ms: int | None
    """How long the model thought before it answered."""
    left_behind_by: str | None
    """The run that began before this was said and went another way."""


@dataclass(frozen=True, slots=True)
class SaidPage:
    """Some messages in their order, and where the ones before them end; None at the thread's beginning."""

    messages: Sequence[Said]
    earlier: Place | None
    newest: Place | None
    """The event the page was read from, which is the thread's newest unless the page is an earlier one."""


@dataclass(frozen=True, slots=True)
class Told:
    """One `changes` event. `branches`: its run began elsewhere than where the thread stood."""

    run_id: str
    seq: int
    data: bytes
    at: datetime
    branches: bool


def page_of(
    connection: Connection, thread_id: str, before: Place | None, limit: int, until: datetime | None = None
) -> SaidPage:
    """The last `limit` messages of the thread, or the last before a place; as it was at a moment, if one is named."""
    newest_first: dict[str, Said] = {}
    newest: Place | None = None
    left_behind = branches_since(connection, thread_id, before, until)
    for told, earlier in with_next(told_backwards(connection, thread_id, before, until)):
        newest = newest or Place(told.run_id, told.seq, 0)
        data = orjson.loads(told.data)
        upto = before.index if before and (told.run_id, told.seq) == (before.run_id, before.seq) else None
        thought = data.get("thought_ms", {})
        for index, fields in reversed(list(enumerate(data["messages"][:upto]))):
            id_ = fields["id"]
            if len(newest_first) == limit and id_ not in newest_first:
                return SaidPage(list(reversed(newest_first.values())), Place(told.run_id, told.seq, index + 1), newest)
            said = newest_first.pop(id_, None) or Said(
                fields, told.run_id, told.at, thought.get(id_), left_behind.get(id_)
            )
            newest_first[id_] = said  # told twice it stands where it was first said, as it was last said
        if told.branches and (earlier is None or earlier.run_id != told.run_id):
            left_behind |= dict.fromkeys(data["removed"], told.run_id)
    return SaidPage(list(reversed(newest_first.values())), None, newest)


def values_told(connection: Connection, thread_id: str, until: datetime | None = None) -> dict[str, object]:
    """What the thread holds besides messages, or held at a moment."""
    newest = next(told_backwards(connection, thread_id, None, until), None)
    if newest is None:
        return {}
    values: dict[str, object] = {}
    # Most events say nothing of the kind: they are told apart by their end, before they are read.
    end = func.substr(run_events.c.data, func.length(run_events.c.data) - len(NO_VALUES) + 1)
    oldest_first = told_query(thread_id, until).where(end != NO_VALUES).order_by(runs.c.created_at, run_events.c.seq)
    for row in connection.execute(oldest_first):
        values |= orjson.loads(row.data)["values"]
        if (row.run_id, row.seq) != (newest.run_id, newest.seq):
            values.pop(INTERRUPT, None)  # a question is open only until something else happens
    return values


def branches_since(
    connection: Connection, thread_id: str, place: Place | None, until: datetime | None
) -> dict[str, str]:
    """The messages that runs after a place have left behind and not said again, by the run that did."""
    if place is None:
        return {}
    left: dict[str, str] = {}
    start = select(runs.c.created_at).where(runs.c.run_id == place.run_id).scalar_subquery()
    later = told_query(thread_id, until).where(
        runs.c.created_at >= start, runs.c.request["checkpoint_id"].as_string().is_not(None)
    )
    oldest_first = later.order_by(runs.c.created_at, run_events.c.seq)
    seen: set[str] = set()
    for row in connection.execute(oldest_first):
        data = orjson.loads(row.data)
        if row.run_id not in seen:
            left |= dict.fromkeys(data["removed"], row.run_id)
        seen.add(row.run_id)
        for fields in data["messages"]:
            left.pop(fields["id"], None)
    return left


def told_backwards(
    connection: Connection, thread_id: str, before: Place | None, until: datetime | None
) -> Iterator[Told]:
    """The `changes` events of the thread, newest first, read as they are asked for; the one a place is in included."""
    query = told_query(thread_id, until).order_by(runs.c.created_at.desc(), run_events.c.seq.desc())
    if before is not None:
        start = select(runs.c.created_at).where(runs.c.run_id == before.run_id).scalar_subquery()
        same_run = (runs.c.run_id == before.run_id) & (run_events.c.seq <= before.seq)
        query = query.where(or_(runs.c.created_at < start, same_run))
    with connection.execute(query.execution_options(yield_per=100)) as rows:
        for row in rows:
            yield Told(row.run_id, row.seq, row.data, row.created_at, row.checkpoint_id is not None)


def told_query(thread_id: str, until: datetime | None) -> Any:
    """The `changes` events of a thread, or those up to a moment."""
    changes: EventName = "changes"
    began_at = runs.c.request["checkpoint_id"].as_string().label("checkpoint_id")
    told = (
        select(run_events.c.run_id, run_events.c.seq, run_events.c.data, run_events.c.created_at, began_at)
        .join(runs, runs.c.run_id == run_events.c.run_id)
        .where(runs.c.thread_id == thread_id, run_events.c.event == changes)
    )
    return told if until is None else told.where(run_events.c.created_at <= until)


def with_next(told: Iterator[Told]) -> Iterator[tuple[Told, Told | None]]:
    """Each event with the one before it in time."""
    newer = next(told, None)
    for older in told:
        assert newer is not None
        yield newer, older
        newer = older
    if newer is not None:
        yield newer, None
