"""SQL of the audit log: entries in a hash chain, written in the transactions of what they record.

Entries hold ids and outcomes. Names and addresses are in their details, which are erased when the person is deleted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from secrets import token_hex
from typing import Any, Literal, TypeVar

import orjson
from sqlalchemy import ColumnElement, Connection, Row, insert, or_, select, update

from deerflow.persistence.queries.events import WriteFunction
from deerflow.persistence.tables import accounts, insert_or_ignore, to_key, to_stored
from deerflow.persistence.tables import audit_entries as entries
from deerflow.persistence.tables import audit_head as head

T = TypeVar("T")
AuditKind = Literal[
    "account.login",
    "account.logout",
    "account.created",
    "account.changed",
    "account.deleted",
    "account.erased",
    "account.password_changed",
    "account.reset_link_created",
    "account.invited",
    "account.invitation_withdrawn",
    "account.token_created",
    "account.token_revoked",
    "account.identity_linked",
    "account.identity_removed",
    "account.passkey_added",
    "account.passkey_removed",
    "configuration.mcp",
    "configuration.model",
    "configuration.skill",
    "configuration.agent",
    "configuration.channel",
    "configuration.hook",
    "configuration.permission",
    "configuration.share",
    "configuration.grant",
    "configuration.team",
    "run.approval",
    "run.tool_call",
    "data.thread_deleted",
    "data.project_deleted",
    "data.memory_deleted",
    "data.thread_read",
]
"""Kinds of entries. The part before the dot is a group that can be filtered by."""
AuditOutcome = Literal["success", "failure", "approve", "reject", "edit", "respond"]
DELETED: AuditKind = "account.deleted"
HEAD_ID = 1
GENESIS = "0" * 64
"""The hash before the first entry."""
MAX_DETAIL_CHARS = 255
PAGE = 2_000
RAW_ENTRIES = (
    "SELECT seq, at, kind, actor, subject, outcome, details, salt, details_hash, hash FROM audit_entries "
    "WHERE seq > {} AND seq <= {} ORDER BY seq LIMIT {}"
)
"""Without SQLAlchemy's types, whose conversions take most of the time of a verification."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Something to record. Details are names and ids; never secrets or contents."""

    kind: AuditKind
    actor: str | None = None
    """The user who did it; None for the server, the terminal and unknown people."""
    subject: str | None = None
    """The user whose account or data it concerns."""
    outcome: AuditOutcome = "success"
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Entry of the audit log. `details` are None if there are none, or if they were erased with their person."""

    seq: int
    at: datetime
    kind: str
    actor: str | None
    subject: str | None
    outcome: str
    details: str | None
    salt: str | None
    details_hash: str | None
    hash: str

    @property
    def is_erased(self) -> bool:
        """True if the entry had details."""
        return self.details is None and self.details_hash is not None


@dataclass(frozen=True, slots=True)
class AuditHead:
    """Number and hash of the last entry. With a copy that is kept elsewhere, truncation is found."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions on entries; None for any. `kind` is a kind or a group."""

    person: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    subject: str | None = None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """Yield the conditions."""
        if self.person is not None:
            yield or_(entries.c.actor == self.person, entries.c.subject == self.person)
        if self.subject is not None:
            yield entries.c.subject == self.subject
        if self.kind is not None:
            group = f"{self.kind}."
            yield or_(entries.c.kind == self.kind, entries.c.kind.startswith(group, autoescape=True))
        if self.since is not None:
            yield entries.c.at >= self.since
        if self.until is not None:
            yield entries.c.at < self.until


def hash_details(salt: str, details: str) -> str:
    """Return the hash of details. The salt keeps short ones from being guessed after they were erased."""
    return sha256(f"{salt}{details}".encode()).hexdigest()


def hash_entry(previous: str, fields: Sequence[object]) -> str:
    """Return the hash of an entry: number, time, kind, actor, subject, outcome and the hash of its details.

    A database that was tampered with may have values of other types.
    """
    return sha256(orjson.dumps([previous, *fields], default=repr)).hexdigest()


def record_events(connection: Connection, *events: AuditEvent) -> None:
    """Add entries in this transaction. While there are no accounts, nothing is recorded."""
    if not events or connection.execute(select(accounts.c.user_id).limit(1)).first() is None:
        return
    last = lock_head(connection)
    for event in events:
        last = append_entry(connection, event, last)
    connection.execute(update(head).where(head.c.head_id == HEAD_ID), {"seq": last.seq, "hash": last.hash})


def write_recorded(
    connection: Connection, change: WriteFunction[T], describe: Callable[[T], Sequence[AuditEvent]]
) -> T:
    """Apply a change and record the events that `describe` returns for its result, in one transaction."""
    result = change(connection)
    record_events(connection, *describe(result))
    return result


def recorded(change: WriteFunction[T], *events: AuditEvent) -> WriteFunction[T]:
    """Return a change that also records events which do not depend on its result."""
    return partial(write_recorded, change=change, describe=lambda _: events)


def lock_head(connection: Connection) -> AuditHead:
    """Return the head; no other transaction adds an entry before the end of this one."""
    insert_or_ignore(connection, head, {"head_id": HEAD_ID, "seq": 0, "hash": GENESIS})
    query = select(head.c.seq, head.c.hash).where(head.c.head_id == HEAD_ID).with_for_update()
    return AuditHead(*connection.execute(query).one())


def append_entry(connection: Connection, event: AuditEvent, last: AuditHead) -> AuditHead:
    """Add an entry after `last` and return the new head."""
    now, seq = datetime.now(UTC), last.seq + 1
    details = salt = details_hash = None
    if event.details:
        clean = {name: to_key(value, MAX_DETAIL_CHARS) for name, value in event.details.items()}
        details, salt = orjson.dumps(clean).decode(), token_hex(16)
        details_hash = hash_details(salt, details)
    named = (event.kind, event.actor, event.subject, event.outcome)
    hashed = hash_entry(last.hash, (seq, to_stored(now), *named, details_hash))
    row = (seq, now, *named, details, salt, details_hash, hashed)
    connection.execute(insert(entries), dict(zip(AuditEntry.__slots__, row, strict=True)))
    return AuditHead(seq, hashed)


def read_head(connection: Connection) -> AuditHead:
    """Return the head; number 0 before the first entry."""
    row = connection.execute(select(head.c.seq, head.c.hash).where(head.c.head_id == HEAD_ID)).first()
    return AuditHead(0, GENESIS) if row is None else AuditHead(row.seq, row.hash)


def read_end(connection: Connection) -> tuple[int, AuditHead]:
    """Return the number of the last entry that is there, 0 if there is none, then the head."""
    last = connection.execute(select(entries.c.seq).order_by(entries.c.seq.desc()).limit(1)).scalar()
    return last or 0, read_head(connection)


def read_raw_entries(connection: Connection, after: int, upto: int) -> Sequence[Row[Any]]:
    """Return a page of entries in order, with times as they are stored."""
    return connection.exec_driver_sql(RAW_ENTRIES.format(after, upto, PAGE)).all()


def list_entries(connection: Connection, wanted: AuditFilter, before: int | None, limit: int) -> Sequence[AuditEntry]:
    """Return the newest entries with numbers below `before`."""
    query = select(entries).where(*wanted.conditions()).order_by(entries.c.seq.desc()).limit(limit)
    if before is not None:
        query = query.where(entries.c.seq < before)
    return [AuditEntry(**row._mapping) for row in connection.execute(query)]


def list_entries_after(connection: Connection, wanted: AuditFilter, after: int, limit: int) -> Sequence[AuditEntry]:
    """Return the oldest entries with numbers above `after`."""
    query = select(entries).where(*wanted.conditions(), entries.c.seq > after).order_by(entries.c.seq).limit(limit)
    return [AuditEntry(**row._mapping) for row in connection.execute(query)]


def list_deleted_people(connection: Connection, after: int) -> set[str]:
    """Return the people whose deletion has an entry with a number above `after`."""
    query = select(entries.c.subject).where(entries.c.kind == DELETED, entries.c.seq > after)
    return set(connection.execute(query).scalars())


def erase_details(connection: Connection, user_id: str) -> None:
    """Erase the details of all entries that a person is named in. The chain stays valid."""
    named = or_(entries.c.actor == user_id, entries.c.subject == user_id)
    connection.execute(update(entries).where(named), {"details": None, "salt": None})


def read_emails(connection: Connection, user_ids: Sequence[str]) -> Mapping[str, str]:
    """Return the e-mail addresses of those users that still have an account."""
    query = select(accounts.c.user_id, accounts.c.email).where(accounts.c.user_id.in_(user_ids))
    return {row.user_id: row.email for row in connection.execute(query)}
