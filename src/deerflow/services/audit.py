"""Audit log: recording, listing, export, and verification of its hash chain."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import orjson

from deerflow.domain.errors import InvalidRequest
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import audit as rows
from deerflow.persistence.queries.audit import DELETED, GENESIS, AuditEntry, AuditEvent, AuditFilter, AuditHead
from deerflow.persistence.queries.events import LoggedEvent, WriteFunction, do_nothing
from deerflow.persistence.tables import to_stored

logger = logging.getLogger(__name__)

T = TypeVar("T")
EXPORT_PAGE = 500
MAX_PROBLEMS = 20
HEAD = re.compile(r"(\d{1,18}):([0-9a-f]{64})")
FIRST = -(2**62)
"""Below the number of every entry, also of forged ones."""


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """Place at which the log was changed."""

    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Result of a verification: the number of entries that were read, the head, and the first problems."""

    entries: int
    head: AuditHead
    problems: Sequence[AuditProblem] = ()

    @property
    def is_valid(self) -> bool:
        """True if nothing was changed."""
        return not self.problems


@dataclass(slots=True)
class ChainCheck:
    """Verification of entries in order."""

    anchor: AuditHead | None = None
    count: int = 0
    last: AuditHead = AuditHead(0, GENESIS)
    problems: list[AuditProblem] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    """People who were deleted."""
    _erased: list[tuple[int, str | None, str | None]] = field(default_factory=list)

    def add(self, page: Sequence[Sequence[Any]]) -> None:
        """Check the next entries, as `read_raw_entries` returns them."""
        previous, hash_entry, hash_details = self.last, rows.hash_entry, rows.hash_details
        for seq, at, kind, actor, subject, outcome, details, salt, details_hash, stored in page:
            if seq != previous.seq + 1:
                self._report(seq, f"entries are missing or were moved: {previous.seq} is followed by {seq}")
            if hash_entry(previous.hash, (seq, at, kind, actor, subject, outcome, details_hash)) != stored:
                self._report(seq, "the entry or the one before it was changed")
            if details is None:
                if salt is not None:
                    self._report(seq, "the details were changed")
                elif details_hash is not None:
                    self._erased.append((seq, actor, subject))
            elif hash_details(salt, details) != details_hash:
                self._report(seq, "the details were changed")
            if kind == DELETED and subject:
                self.deleted.add(subject)
            previous = AuditHead(seq, stored)
            if self.anchor is not None and seq == self.anchor.seq and stored != self.anchor.hash:
                self._report(seq, "the entry is not the one whose head was kept")
        self.count += len(page)
        self.last = previous

    def finish(self, head: AuditHead, last_seq: int) -> AuditReport:
        """Compare the end with the head and the one that was kept, and return the report."""
        if self.last != head:
            self._report(self.last.seq, f"the log ends here, and its head is {head.seq}")
        if last_seq > head.seq:
            self._report(last_seq, f"there are entries after the head, which is {head.seq}")
        if self.anchor is not None and self.anchor.seq > self.last.seq:
            self._report(self.last.seq, f"the log ends here, and once had {self.anchor.seq} entries")
        for seq, *people in self._erased:
            if self.deleted.isdisjoint(people):
                self._report(seq, "the details were erased, but no person of the entry was deleted")
        return AuditReport(self.count, head, self.problems)

    def _report(self, seq: int, reason: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(AuditProblem(seq, reason))


async def always() -> bool:
    """Return True."""
    return True


@dataclass(frozen=True, slots=True)
class AuditLog:
    """The audit log of the server. `is_active` returns whether there may be accounts; else nothing is recorded."""

    database: Database
    is_active: Callable[[], Awaitable[bool]] = always

    async def record(self, *events: AuditEvent) -> None:
        """Add entries in a transaction of their own."""
        if await self.is_active():
            await self.database.write(rows.recorded(do_nothing, *events))

    async def list(self, wanted: AuditFilter, before: int | None = None, limit: int = 50) -> Sequence[AuditEntry]:
        """Return entries, newest first, with numbers below `before`."""
        return await self.database.read(partial(rows.list_entries, wanted=wanted, before=before, limit=limit))

    async def find_emails(self, found: Sequence[AuditEntry]) -> Mapping[str, str]:
        """Return the e-mail addresses of the people in some entries who still have an account."""
        people: Collection[str] = {person for each in found for person in (each.actor, each.subject) if person}
        return await self.database.read(partial(rows.read_emails, user_ids=sorted(people)))

    async def read_head(self) -> AuditHead:
        """Return number and hash of the last entry."""
        return await self.database.read(rows.read_head)

    async def verify(self, anchor: AuditHead | None = None) -> AuditReport:
        """Verify the whole chain. With a head that was kept elsewhere, the removal of the last entries is found too."""
        last_seq, head = await self.database.read(rows.read_end)
        check, after = ChainCheck(anchor), FIRST
        while page := await self.database.read(partial(rows.read_raw_entries, after=after, upto=head.seq)):
            await asyncio.to_thread(check.add, page)
            after = page[-1][0]
        # The details of people who were deleted meanwhile may be gone already.
        check.deleted |= await self.database.read(partial(rows.list_deleted_people, after=head.seq))
        return check.finish(head, last_seq)

    async def export(self, wanted: AuditFilter) -> AsyncIterator[bytes]:
        """Yield entries as JSON lines, oldest first, with all that is needed to verify them elsewhere."""
        after = FIRST
        while True:
            query = partial(rows.list_entries_after, wanted=wanted, after=after, limit=EXPORT_PAGE)
            page = await self.database.read(query)
            if not page:
                return
            yield b"".join(map(to_json_line, page))
            after = page[-1].seq

    async def log_head(self) -> None:
        """Write the head to the log of the server, which may be kept elsewhere."""
        head = await self.read_head()
        if head.seq:
            logger.info("head of the audit log: %s", head)


def parse_head(text: str) -> AuditHead:
    """Return a head that was printed before.

    Raises:
        InvalidRequest: It is not a head.
    """
    found = HEAD.fullmatch(text.strip())
    if found is None:
        raise InvalidRequest("a head has the form SEQ:HASH, as `deerflow audit head` prints it")
    return AuditHead(int(found[1]), found[2])


def to_json_line(entry: AuditEntry) -> bytes:
    """Return an entry as a line of JSON. `time` is for people; the hash covers `at`, in microseconds since 1970."""
    fields = {name: getattr(entry, name) for name in AuditEntry.__slots__}
    return orjson.dumps({**fields, "at": to_stored(entry.at), "time": entry.at}, option=orjson.OPT_APPEND_NEWLINE)


class RecordedDatabase:
    """Database that adds an event to the first change it makes, in the same transaction."""

    def __init__(self, database: Database, event: AuditEvent) -> None:
        self._database = database
        self._event: AuditEvent | None = event

    async def read(self, query: WriteFunction[T]) -> T:
        """Run a query."""
        return await self._database.read(query)

    async def look_up(self, query: WriteFunction[T]) -> T:
        """Run a query of a few rows."""
        return await self._database.look_up(query)

    async def write(self, change: WriteFunction[T]) -> T:
        """Run a change, with the event if it has not been recorded yet."""
        if self._event is None:
            return await self._database.write(change)
        result = await self._database.write(rows.recorded(change, self._event))
        self._event = None
        return result

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        """Add events of runs."""
        return await self._database.append(events)

    async def aclose(self) -> None:
        """Do nothing: another one owns the database."""


class UsesDatabase(Protocol):
    """Service that changes a database."""

    @property
    def database(self) -> Database:
        """The database."""
        ...


Service = TypeVar("Service", bound=UsesDatabase)


def audited(service: Service, event: AuditEvent) -> Service:
    """Return a service, which is a dataclass, that records an event with its next change."""
    recording = RecordedDatabase(service.database, event)
    return replace(service, database=recording)  # type: ignore[type-var]  # mypy knows no bound for dataclasses


@dataclass(frozen=True, slots=True)
class RunAudit:
    """Audit log for the tool calls of one run."""

    log: Callable[[], AuditLog]
    user_id: str
    thread_id: str
    run_id: str

    async def record_call(self, tool: str, server: str | None, *, has_failed: bool) -> None:
        """Record the outcome of a call that reached outside of the sandbox."""
        details = {"tool": tool, "thread": self.thread_id, "run": self.run_id, **({"server": server} if server else {})}
        outcome: rows.AuditOutcome = "failure" if has_failed else "success"
        await self.log().record(AuditEvent("run.tool_call", self.user_id, self.user_id, outcome, details))
