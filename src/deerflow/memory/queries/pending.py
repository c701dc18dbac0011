"""Extraction queue: one row per thread, written in the transaction that ends a run."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, delete, func, insert, or_, select, update

from deerflow.domain.memory import (
    BilledRun,
    ConversationMessage,
    FeedbackSignals,
    MemoryChange,
    MemoryEdit,
    MemoryScope,
    MemoryState,
    PendingExtraction,
    ScheduledExtraction,
)
from deerflow.domain.usage import SpendingLimit
from deerflow.memory.queries.erasure import set_watermark, skip_pending
from deerflow.memory.queries.facts import is_switched_off, lock_row, owned_by, record_edits
from deerflow.memory.queries.search import to_scope_key
from deerflow.persistence.queries.search import is_permanent
from deerflow.persistence.queries.transactions import savepoint
from deerflow.persistence.tables import UtcTime, memory_pending, memory_watermarks, to_key

MAX_WAITING_MESSAGES = 60
"""Number of pending messages above which a thread is processed without debounce."""
MAX_WAIT_FACTOR = 10
"""Maximum delay of a busy thread, as a multiple of the debounce."""
MAX_BATCH_CHARS = 40_000
"""Maximum length of one batch; the rest is processed next."""
columns = memory_pending.c


def enqueue_extraction(connection: Connection, extraction: PendingExtraction, wait: timedelta) -> None:
    """Add an extraction to the queue in a savepoint: a run ends even if its messages cannot be stored."""
    with savepoint(connection, f"the pending extraction of thread {extraction.thread_id}"):
        add_pending(connection, extraction, wait)


def add_pending(connection: Connection, extraction: PendingExtraction, wait: timedelta) -> None:
    """Schedule a thread for extraction after `wait` without activity, together with its pending messages.

    The run that adds messages pays for all of them.
    """
    if is_switched_off(connection, extraction.scope):
        return
    if not is_permanent(connection, extraction.thread_id, extraction.scope.owner):
        return
    row = connection.execute(select(memory_pending).where(match_thread(extraction)).with_for_update()).first()
    stored: dict[str, Any] = row.data if row is not None else {"messages": []}
    since = extraction.due_at
    if row is not None and not row.is_unpaid:  # never in the future, which the clock may have been set back from
        since = min(since, datetime.fromisoformat(stored["since"]))
    waiting = {message["message_id"]: message for message in stored["messages"]}
    for message in list_unprocessed(connection, extraction):
        waiting[message.message_id] = asdict(message)
    if not waiting:
        return
    latest = since + (MAX_WAIT_FACTOR - 1) * wait
    conversation = {"messages": list(waiting.values()), "since": since.isoformat()}
    values = {
        "data": {**conversation, "payer": to_stored_payer(extraction.payer)},
        "last_message_id": to_key(extraction.messages[-1].message_id),
        "is_correction": extraction.signals.correction or bool(row and row.is_correction),
        "is_reinforcement": extraction.signals.reinforcement or bool(row and row.is_reinforcement),
        "due_at": extraction.due_at - wait if len(waiting) > MAX_WAITING_MESSAGES else min(extraction.due_at, latest),
        "is_unpaid": False,
    }
    if row is None or not connection.execute(update(memory_pending).where(match_thread(extraction)), values).rowcount:
        key = {**to_scope_key(extraction.scope), "thread_id": extraction.thread_id}
        connection.execute(insert(memory_pending), {**key, **values, "attempts": 0})


def find_next_due(connection: Connection) -> datetime | None:
    """Return when the next extraction is due; a claimed one counts from the end of its claim."""
    due: datetime | None = connection.execute(select(next_due(connection)).where(~columns.is_unpaid)).scalar()
    return due


def next_due(connection: Connection) -> ColumnElement[datetime]:
    """Return the expression for the time when the next extraction is due."""
    later_of = func.max if connection.dialect.name == "sqlite" else func.greatest
    free_at = func.coalesce(columns.lease_expires_at, columns.due_at)
    return func.min(later_of(columns.due_at, free_at, type_=UtcTime()), type_=UtcTime())


def list_pending(connection: Connection, scope: MemoryScope, limit: int) -> Sequence[ScheduledExtraction]:
    """Return the threads with pending extraction, in order of processing."""
    order = columns.is_unpaid, columns.due_at
    query = select(memory_pending).where(owned_by(memory_pending, scope)).order_by(*order).limit(limit)
    found = connection.execute(query)
    return [ScheduledExtraction(row.thread_id, row.due_at, row.process is not None, row.is_unpaid) for row in found]


@dataclass(frozen=True, slots=True)
class LatestTimes:
    """Times beyond which nothing waits, unless it was stored before the clock was set back."""

    first: datetime
    retry: datetime
    claim: datetime

    def exceeded(self) -> Sequence[tuple[ColumnElement[bool], ColumnElement[datetime], datetime]]:
        """Return the rows that wait too long: a condition, the column with the time, and its limit."""
        is_new = columns.attempts == 0
        return [
            (is_new & (columns.due_at > self.first), columns.due_at, self.first),
            (~is_new & (columns.due_at > self.retry), columns.due_at, self.retry),
            (columns.lease_expires_at > self.claim, columns.lease_expires_at, self.claim),
        ]


def find_schedule(connection: Connection, latest: LatestTimes) -> tuple[datetime | None, bool]:
    """Return when the next extraction is due, and whether one waits too long."""
    is_exceeded = or_(*(which for which, _, _ in latest.exceeded()))
    query = select(next_due(connection), func.max(case((is_exceeded, 1), else_=0))).where(~columns.is_unpaid)
    row = connection.execute(query).one()
    return row[0], bool(row[1])


def limit_waits(connection: Connection, latest: LatestTimes) -> datetime | None:
    """Let nothing wait longer than it does with a clock that is not set. Return when the next extraction is due."""
    for which, column, limit in latest.exceeded():
        connection.execute(update(memory_pending).where(which), {column.name: limit})
    return find_next_due(connection)


def claim_due(connection: Connection, now: datetime, claim: str, lease: timedelta) -> PendingExtraction | None:
    """Claim the oldest due extraction; other processes skip it until the claim expires."""
    return claim_first(connection, columns.due_at <= now, now, claim, lease)


def claim_first(
    connection: Connection, which: ColumnElement[bool], now: datetime, claim: str, lease: timedelta
) -> PendingExtraction | None:
    """Claim the first matching extraction that is within budget and not claimed."""
    is_free = or_(columns.lease_expires_at.is_(None), columns.lease_expires_at <= now)
    first = select(memory_pending).where(which, ~columns.is_unpaid, is_free).order_by(columns.due_at).limit(1)
    row = connection.execute(first.with_for_update(skip_locked=True)).first()
    if row is None:
        return None
    extraction = replace(to_pending(row), claim=claim, attempts=row.attempts + 1)
    if is_switched_off(connection, extraction.scope):
        discard_pending(connection, extraction)
        return claim_first(connection, which, now, claim, lease)
    values = {"process": claim, "lease_expires_at": now + lease, "attempts": row.attempts + 1}
    connection.execute(update(memory_pending).where(match_thread(extraction)), values)
    return extraction


def renew_claim(connection: Connection, extraction: PendingExtraction, until: datetime) -> bool:
    """Extend a claim; return False when it was lost."""
    renewed = update(memory_pending).where(match_claim(extraction))
    return connection.execute(renewed, {"lease_expires_at": until}).rowcount > 0


def update_billing(connection: Connection, extraction: PendingExtraction) -> bool:
    """Store the remaining budget; return False when the claim was lost, or another run pays by now."""
    row = connection.execute(select(columns.data).where(match_claim(extraction)).with_for_update()).first()
    payer = to_payer(row.data) if row is not None else None
    if row is None or payer is None or extraction.payer is None or payer.run_id != extraction.payer.run_id:
        return False
    noted = {"data": {**row.data, "payer": to_stored_payer(extraction.payer)}}
    return connection.execute(update(memory_pending).where(match_claim(extraction)), noted).rowcount > 0


def settle_budget(connection: Connection, extraction: PendingExtraction) -> None:
    """Store the remaining budget after an extraction, if it has one."""
    if extraction.payer is not None and extraction.payer.limit is not None:
        update_billing(connection, extraction)


def release_claim(connection: Connection, extraction: PendingExtraction, due_at: datetime, attempts: int) -> None:
    """Release a claim; the extraction is retried from `due_at` on."""
    settle_budget(connection, extraction)
    free = {"process": None, "lease_expires_at": None, "due_at": due_at, "attempts": attempts}
    connection.execute(update(memory_pending).where(match_claim(extraction)), free)


def suspend_extraction(connection: Connection, extraction: PendingExtraction) -> None:
    """Postpone an extraction to the next run of its thread, unless that run has ended meanwhile: then it pays."""
    is_noted = update_billing(connection, extraction)
    is_unpaid = is_noted or extraction.payer is None  # rows written before payers were recorded have none
    free = {"process": None, "lease_expires_at": None, "is_unpaid": is_unpaid, "attempts": extraction.attempts - 1}
    connection.execute(update(memory_pending).where(match_claim(extraction)), free)


def finish_extraction(
    connection: Connection,
    extraction: PendingExtraction,
    edits: Callable[[MemoryState], Sequence[MemoryEdit]],
    now: datetime,
) -> Sequence[MemoryChange] | None:
    """Apply the edits and remove the processed messages from the queue; return None when the claim was lost.

    Messages that arrived meanwhile stay pending.
    """
    lock_row(connection, extraction.scope)  # first, in the same order as erasures
    settle_budget(connection, extraction)
    row = connection.execute(select(memory_pending).where(match_claim(extraction)).with_for_update()).first()
    if row is None:
        return None
    if is_switched_off(connection, extraction.scope):
        discard_pending(connection, extraction)
        return None
    changes = record_edits(connection, extraction.scope, edits, "model")
    read = {message.message_id for message in extraction.messages}
    rest = [message for message in row.data["messages"] if message["message_id"] not in read]
    if rest:
        left = {"data": {**row.data, "messages": rest}, "process": None, "lease_expires_at": None, "attempts": 0}
        connection.execute(update(memory_pending).where(match_claim(extraction)), left)
    else:
        connection.execute(delete(memory_pending).where(match_claim(extraction)))
    set_watermark(connection, extraction.scope, extraction.thread_id, to_key(extraction.messages[-1].message_id), now)
    return changes


def discard_pending(connection: Connection, extraction: PendingExtraction) -> None:
    """Skip the pending messages of a thread: the owner has disabled the memory."""
    skip_pending(connection, extraction.scope, columns.thread_id == extraction.thread_id)


def list_unprocessed(connection: Connection, extraction: PendingExtraction) -> Sequence[ConversationMessage]:
    """Return the messages of a thread after the last processed one."""
    query = select(memory_watermarks.c.message_id).where(
        owned_by(memory_watermarks, extraction.scope), memory_watermarks.c.thread_id == extraction.thread_id
    )
    seen = connection.execute(query).scalar()
    ids = [to_key(message.message_id) for message in extraction.messages]
    return extraction.messages[ids.index(seen) + 1 :] if seen in ids else extraction.messages


def match_thread(extraction: PendingExtraction) -> ColumnElement[bool]:
    """Return the condition that matches the row of a thread."""
    return and_(owned_by(memory_pending, extraction.scope), columns.thread_id == extraction.thread_id)


def match_claim(extraction: PendingExtraction) -> ColumnElement[bool]:
    """Return the condition that matches the row of a thread while it is claimed by us."""
    return and_(match_thread(extraction), columns.process == extraction.claim)


def to_pending(row: Row[Any]) -> PendingExtraction:
    """Convert a row to an extraction with at most one batch of messages."""
    messages: list[ConversationMessage] = []
    room = MAX_BATCH_CHARS
    for fields in row.data["messages"]:
        message = ConversationMessage(**fields)
        if messages and len(message.text) > room:
            break
        messages.append(message)
        room -= len(message.text)
    scope = MemoryScope(row.owner, row.agent or None)
    signals = FeedbackSignals(row.is_correction, row.is_reinforcement)
    return PendingExtraction(
        scope, row.thread_id, messages, signals, row.due_at, row.attempts, payer=to_payer(row.data)
    )


def to_payer(data: dict[str, Any]) -> BilledRun | None:
    """Convert the stored run that pays."""
    payer = data.get("payer")
    if payer is None:
        return None
    return BilledRun(payer["run_id"], SpendingLimit.from_stored(payer["limit"]) if payer["limit"] is not None else None)


def to_stored_payer(payer: BilledRun | None) -> dict[str, Any] | None:
    """Convert the run that pays to JSON."""
    if payer is None:
        return None
    return {"run_id": payer.run_id, "limit": payer.limit.to_stored() if payer.limit is not None else None}
