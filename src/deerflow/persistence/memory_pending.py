"""Conversations that memory is yet to read: a row for each thread, written with the end of the run that adds to it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, or_, select, update

from deerflow.domain.budget import SpendingLimit
from deerflow.domain.learning import Heard, Lesson, Payer, Signs, Waiting
from deerflow.domain.memory import Change, Edit, MemoryScope, MemoryState
from deerflow.persistence.closing import sparing
from deerflow.persistence.memory import hold, is_switched_off, mine, record
from deerflow.persistence.memory_erasure import mark_read, skip_pending
from deerflow.persistence.memory_values import key_of
from deerflow.persistence.tables import UtcTime, memory_pending, memory_watermarks, threads, to_key

MOST_MESSAGES = 60
"""With more of them a thread is learned from without waiting for quiet."""
LONGEST_WAIT = 10
"""So many times the wait for quiet, a thread that is never quiet is learned from all the same."""
READ_CHARS = 40_000
"""How much is read at once; the rest is read next."""
columns = memory_pending.c


def keep_lesson(connection: Connection, keep: Callable[[Connection], None], lesson: Lesson, wait: timedelta) -> None:
    """Do what a run's end does besides, then have its thread be learned from; a run ends, whatever it said."""
    keep(connection)
    with sparing(connection, f"what is to be learned from thread {lesson.thread_id}"):
        add_lesson(connection, lesson, wait)


def add_lesson(connection: Connection, lesson: Lesson, wait: timedelta) -> None:
    """Have a thread be learned from when it has been quiet for `wait`; what was waiting is learned with it.

    Whoever paid for what was waiting, from now on it is the run that adds to it.
    """
    if is_switched_off(connection, lesson.scope):
        return
    owned = and_(threads.c.thread_id == lesson.thread_id, threads.c.owner == lesson.scope.owner)
    if connection.execute(select(threads.c.thread_id).where(owned)).first() is None:
        return
    row = connection.execute(select(memory_pending).where(of_thread(lesson)).with_for_update()).first()
    held: dict[str, Any] = row.data if row is not None else {"messages": []}
    since = lesson.due_at if row is None or row.is_unpaid else datetime.fromisoformat(held["since"])
    waiting = {message["message_id"]: message for message in held["messages"]}
    for message in unseen(connection, lesson):
        waiting[message.message_id] = asdict(message)
    if not waiting:
        return
    latest = since + (LONGEST_WAIT - 1) * wait
    said = {"messages": list(waiting.values()), "since": since.isoformat()}
    values = {
        "data": {**said, "payer": from_payer(lesson.payer)},
        "last_message_id": to_key(lesson.messages[-1].message_id),
        "is_correction": lesson.signs.correction or bool(row and row.is_correction),
        "is_reinforcement": lesson.signs.reinforcement or bool(row and row.is_reinforcement),
        "due_at": lesson.due_at - wait if len(waiting) > MOST_MESSAGES else min(lesson.due_at, latest),
        "is_unpaid": False,
    }
    if row is None or not connection.execute(update(memory_pending).where(of_thread(lesson)), values).rowcount:
        key = {**key_of(lesson.scope), "thread_id": lesson.thread_id}
        connection.execute(insert(memory_pending), {**key, **values, "attempts": 0})


def next_lesson_at(connection: Connection) -> datetime | None:
    """When there is something to learn next; a thread that somebody is learning from counts when they may be dead."""
    later_of = func.max if connection.dialect.name == "sqlite" else func.greatest
    free_at = func.coalesce(columns.lease_expires_at, columns.due_at)
    when = later_of(columns.due_at, free_at, type_=UtcTime())
    return connection.execute(select(when).where(~columns.is_unpaid).order_by(when).limit(1)).scalar()


def read_waiting(connection: Connection, scope: MemoryScope, limit: int) -> Sequence[Waiting]:
    """The threads a memory is yet to learn from, the next first."""
    order = columns.is_unpaid, columns.due_at
    query = select(memory_pending).where(mine(memory_pending, scope)).order_by(*order).limit(limit)
    found = connection.execute(query)
    return [Waiting(row.thread_id, row.due_at, row.process is not None, row.is_unpaid) for row in found]


def claim_lesson(connection: Connection, now: datetime, claim: str, lease: timedelta) -> Lesson | None:
    """Take the thread that has waited longest to be learned from; nobody else gets it before the lease is over."""
    return claim_first(connection, columns.due_at <= now, now, claim, lease)


def claim_waiting(
    connection: Connection, scope: MemoryScope, done: Sequence[str], now: datetime, claim: str, lease: timedelta
) -> Lesson | None:
    """Take a thread that waits for a memory, whether it is due or not, but none of those that are `done`."""
    which = and_(mine(memory_pending, scope), columns.thread_id.not_in(done))
    return claim_first(connection, which, now, claim, lease)


def claim_first(
    connection: Connection, which: ColumnElement[bool], now: datetime, claim: str, lease: timedelta
) -> Lesson | None:
    """Take the first of some threads that somebody pays for and nobody is learning from."""
    is_free = or_(columns.lease_expires_at.is_(None), columns.lease_expires_at <= now)
    first = select(memory_pending).where(which, ~columns.is_unpaid, is_free).order_by(columns.due_at).limit(1)
    row = connection.execute(first.with_for_update(skip_locked=True)).first()
    if row is None:
        return None
    lesson = replace(to_lesson(row), claim=claim, attempts=row.attempts + 1)
    if is_switched_off(connection, lesson.scope):
        forget_waiting(connection, lesson)
        return claim_first(connection, which, now, claim, lease)
    taken = {"process": claim, "lease_expires_at": now + lease, "attempts": row.attempts + 1}
    connection.execute(update(memory_pending).where(of_thread(lesson)), taken)
    return lesson


def renew_lesson(connection: Connection, lesson: Lesson, until: datetime) -> bool:
    """Keep a thread for longer; False when it is ours no more."""
    renewed = update(memory_pending).where(claimed(lesson))
    return connection.execute(renewed, {"lease_expires_at": until}).rowcount > 0


def note_payment(connection: Connection, lesson: Lesson) -> bool:
    """Keep what its payer has left; False when the thread is ours no more, or another run pays for it by now."""
    row = connection.execute(select(columns.data).where(claimed(lesson)).with_for_update()).first()
    payer = to_payer(row.data) if row is not None else None
    if row is None or payer is None or lesson.payer is None or payer.run_id != lesson.payer.run_id:
        return False
    noted = {"data": {**row.data, "payer": from_payer(lesson.payer)}}
    return connection.execute(update(memory_pending).where(claimed(lesson)), noted).rowcount > 0


def settle(connection: Connection, lesson: Lesson) -> None:
    """Keep what is left of a budget after a lesson, if there is one."""
    if lesson.payer is not None and lesson.payer.limit is not None:
        note_payment(connection, lesson)


def give_back_lesson(connection: Connection, lesson: Lesson, due_at: datetime, attempts: int) -> None:
    """Have somebody try again from `due_at` on."""
    settle(connection, lesson)
    free = {"process": None, "lease_expires_at": None, "due_at": due_at, "attempts": attempts}
    connection.execute(update(memory_pending).where(claimed(lesson)), free)


def leave_unpaid(connection: Connection, lesson: Lesson) -> None:
    """Have a thread wait for its next run, unless that has ended meanwhile: then it pays."""
    is_noted = note_payment(connection, lesson)
    is_unpaid = is_noted or lesson.payer is None  # who paid before that was noted has nobody to follow them
    free = {"process": None, "lease_expires_at": None, "is_unpaid": is_unpaid, "attempts": lesson.attempts - 1}
    connection.execute(update(memory_pending).where(claimed(lesson)), free)


def finish_lesson(
    connection: Connection, lesson: Lesson, edits: Callable[[MemoryState], Sequence[Edit]], now: datetime
) -> Sequence[Change] | None:
    """Remember what was learned and that it was, both or neither; None when the thread is ours no more.

    What was said meanwhile stays to be learned.
    """
    hold(connection, lesson.scope)  # first, as whoever erases a memory does
    settle(connection, lesson)
    row = connection.execute(select(memory_pending).where(claimed(lesson)).with_for_update()).first()
    if row is None:
        return None
    if is_switched_off(connection, lesson.scope):
        forget_waiting(connection, lesson)
        return None
    changes = record(connection, lesson.scope, edits, "model")
    read = {message.message_id for message in lesson.messages}
    rest = [message for message in row.data["messages"] if message["message_id"] not in read]
    if rest:
        left = {"data": {**row.data, "messages": rest}, "process": None, "lease_expires_at": None, "attempts": 0}
        connection.execute(update(memory_pending).where(claimed(lesson)), left)
    else:
        connection.execute(delete(memory_pending).where(claimed(lesson)))
    mark_read(connection, lesson.scope, lesson.thread_id, to_key(lesson.messages[-1].message_id), now)
    return changes


def forget_waiting(connection: Connection, lesson: Lesson) -> None:
    """Have nothing be learned from what waits: its owner does not want it."""
    skip_pending(connection, lesson.scope, columns.thread_id == lesson.thread_id)


def unseen(connection: Connection, lesson: Lesson) -> Sequence[Heard]:
    """What is new of a thread: what comes after the last message that was learned from."""
    query = select(memory_watermarks.c.message_id).where(
        mine(memory_watermarks, lesson.scope), memory_watermarks.c.thread_id == lesson.thread_id
    )
    seen = connection.execute(query).scalar()
    ids = [to_key(message.message_id) for message in lesson.messages]
    return lesson.messages[ids.index(seen) + 1 :] if seen in ids else lesson.messages


def of_thread(lesson: Lesson) -> ColumnElement[bool]:
    """That a row is what is to be learned from a thread."""
    return and_(mine(memory_pending, lesson.scope), columns.thread_id == lesson.thread_id)


def claimed(lesson: Lesson) -> ColumnElement[bool]:
    """That it is so, and ours."""
    return and_(of_thread(lesson), columns.process == lesson.claim)


def to_lesson(row: Row[Any]) -> Lesson:
    """A row in the words of the domain; as much of it as is read at once."""
    messages: list[Heard] = []
    room = READ_CHARS
    for fields in row.data["messages"]:
        message = Heard(**fields)
        if messages and len(message.text) > room:
            break
        messages.append(message)
        room -= len(message.text)
    scope = MemoryScope(row.owner, row.agent or None)
    signs = Signs(row.is_correction, row.is_reinforcement)
    return Lesson(scope, row.thread_id, messages, signs, row.due_at, row.attempts, payer=to_payer(row.data))


def to_payer(data: dict[str, Any]) -> Payer | None:
    """Who pays, as a row has it."""
    payer = data.get("payer")
    if payer is None:
        return None
    return Payer(payer["run_id"], SpendingLimit.of(payer["limit"]) if payer["limit"] is not None else None)


def from_payer(payer: Payer | None) -> dict[str, Any] | None:
    """Who pays, for a row."""
    if payer is None:
        return None
    return {"run_id": payer.run_id, "limit": payer.limit.to_stored() if payer.limit is not None else None}
