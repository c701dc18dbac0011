"""Transactions that admit, end, copy and edit runs as a whole."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import Connection, update
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, ProgrammingError

from deerflow.domain.errors import Conflict, NotFound, QuotaExceeded
from deerflow.domain.runs import FINAL_EVENT, MultitaskStrategy, RunEvent, RunRecord, RunStatus
from deerflow.domain.threads import BRANCHED_FROM, TEMPORARY, DiscardedHistory, SearchableMessage, WaitReason
from deerflow.domain.usage import UsageEntry, UsageOrigin
from deerflow.persistence.queries.audit import AuditEvent, AuditOutcome, record_events
from deerflow.persistence.queries.events import LoggedEvent, WriteFunction, do_nothing, insert_events, read_last_seq
from deerflow.persistence.queries.runs import (
    ClaimedRun,
    StoredRequest,
    advance_run,
    claim_next_run,
    find_run_by_key,
    insert_run,
    list_active_runs,
    reclaim_run,
    request_stops,
    select_oldest_first,
)
from deerflow.persistence.queries.search import index_messages, index_run, is_temporary, remove_from_index
from deerflow.persistence.queries.threads import find_thread, insert_thread, lock_thread, thread_exists, touch_thread
from deerflow.persistence.queries.usage import count_busy_threads, lock_owner, record_usage
from deerflow.persistence.tables import ACTIVE, runs

RETRY_S = 5.0
"""Time after which a run that was refused because of others may be sent again."""


@dataclass(frozen=True, slots=True)
class RunAdmission:
    """Admitted run, new or known by its idempotency key, and the other active runs of its thread."""

    run: RunRecord
    is_new: bool = True
    others: Sequence[RunRecord] = ()
    is_temporary: bool = False
    """Whether the thread is temporary."""


AdmissionChange = Callable[[Connection, RunRecord], None]
"""Change that is part of the transaction that admits a run. It is applied when the run is known already, too."""


def admit_alone(connection: Connection, run: RunRecord) -> None:
    """Change nothing; for runs that are admitted alone."""


@dataclass(frozen=True, slots=True)
class RunFinish:
    """Result of ending a run: whether its end was recorded, and the next run of the thread."""

    is_recorded: bool
    next: ClaimedRun | None = None


def accept_run(
    connection: Connection,
    run: RunRecord,
    request: StoredRequest,
    first: LoggedEvent,
    title: str | None,
    *,
    may_create_thread: bool,
    decisions: Sequence[tuple[str, AuditOutcome, bool]] = (),
    max_busy_threads: int | None = None,
    also: AdmissionChange = admit_alone,
) -> RunAdmission:
    """Insert a run, its first event and, if needed, its thread. Record what it decides about calls of tools.

    Raises:
        Conflict: The thread is busy and the run may not wait, or its idempotency key was used for another request.
        NotFound: The thread does not exist and may not be created, or has another owner.
        QuotaExceeded: The person has active runs in too many threads.
    """
    has_thread = thread_exists(connection, run.thread_id, run.owner)
    if known := find_run_by_key(connection, run.owner, request):
        also(connection, known)
        return RunAdmission(known, is_new=False)
    if not has_thread:
        if not may_create_thread:
            raise NotFound(f"no thread {run.thread_id!r}")
        insert_thread(connection, run.thread_id, run.owner, {}, title)
    others = list_active_runs(connection, run.thread_id) if has_thread else ()
    if max_busy_threads is not None and not others:
        check_busy_threads(connection, run.actor, max_busy_threads)
    if others:
        if run.multitask_strategy is MultitaskStrategy.REJECT:
            raise Conflict(f"thread {run.thread_id!r} is busy with another run")
        run = replace(run, status=RunStatus.PENDING)
        if action := run.multitask_strategy.cancel_action:  # stored, so that it takes effect even after a crash
            request_stops(connection, run.thread_id, action)
    insert_run(connection, run, request)
    insert_events(connection, [first])
    if has_thread:
        touch_thread(connection, run.thread_id, title)
    record_approvals(connection, run, decisions)
    also(connection, run)
    temporary = has_thread and is_temporary(connection, run.thread_id, run.owner)
    return RunAdmission(run, others=others, is_temporary=temporary)


def record_approvals(
    connection: Connection, run: RunRecord, decisions: Sequence[tuple[str, AuditOutcome, bool]]
) -> None:
    """Record what the person who started a run has decided about calls of tools."""
    events = []
    for tool, outcome, is_for_thread in decisions:
        scope = {"scope": "thread"} if is_for_thread else {}
        details = {"tool": tool, "thread": run.thread_id, "run": run.run_id, **scope}
        events.append(AuditEvent("run.approval", run.actor, run.owner, outcome, details))
    record_events(connection, *events)


def check_busy_threads(connection: Connection, owner: str, limit: int) -> None:
    """Raise `QuotaExceeded` if a person has active runs in as many threads as they may have."""
    lock_owner(connection, owner)
    if count_busy_threads(connection, owner) >= limit:
        raise QuotaExceeded(f"you have runs in {limit} threads, which is your quota; wait until one ends", RETRY_S)


def finish_run(
    connection: Connection,
    run: RunRecord,
    events: Sequence[LoggedEvent],
    status: RunStatus,
    error: str | None,
    also: WriteFunction[None] = do_nothing,
) -> RunFinish:
    """Record a run's last events, its final status and other results, unless it has ended; start the next run."""
    lock_thread(connection, run.thread_id)
    if not advance_run(connection, run, status, error):
        return RunFinish(False)
    insert_events(connection, events)
    also(connection)
    return RunFinish(True, claim_next_run(connection, run.thread_id, run.process))


def retry_run(connection: Connection, run: RunRecord, note: bytes | None) -> ClaimedRun | None:
    """Begin another attempt at a run of this process, with `note` as custom event; None if the run is no longer its."""
    claimed = reclaim_run(connection, run, run.process)
    if claimed is not None and note is not None:
        event = RunEvent(read_last_seq(connection, run.run_id) + 1, "custom", note)
        insert_events(connection, [LoggedEvent(run.run_id, event, datetime.now(UTC), claimed.record.attempt)])
    return claimed


def finish_damaged_run(connection: Connection, run: RunRecord, error: str, data: bytes) -> RunFinish:
    """End a run whose record cannot be read, with an `error` event if possible; claim the next run of its thread."""
    last, now = read_last_seq(connection, run.run_id), datetime.now(UTC)
    ending = [RunEvent(last + 1, "error", data), RunEvent(last + 2, FINAL_EVENT, b"null")]
    events = [LoggedEvent(run.run_id, event, now, run.attempt) for event in ending]

    def log_end(connection: Connection) -> None:
        with savepoint(connection, f"the last events of run {run.run_id}"):
            insert_events(connection, events)

    return finish_run(connection, run, (), RunStatus.ERROR, error, also=log_end)


logger = logging.getLogger(__name__)

REJECTED_VALUES = (DataError, IntegrityError, InterfaceError, ProgrammingError, ValueError, OverflowError)


def record_run_result(
    connection: Connection,
    run: RunRecord,
    origin: UsageOrigin,
    entries: Sequence[UsageEntry],
    messages: Sequence[SearchableMessage],
    discarded: DiscardedHistory | None,
    waits_for: WaitReason | None,
) -> None:
    """Store usage, messages and wait reason of a run. Values that the database rejects are skipped: runs always end."""
    if waits_for is not None:
        owned = (runs.c.run_id == run.run_id) & (runs.c.owner == run.owner)
        connection.execute(update(runs).where(owned), {"waits_for": waits_for})
    with savepoint(connection, f"the usage of run {run.run_id}"):
        record_usage(connection, origin, entries)
    with savepoint(connection, f"the messages of run {run.run_id}"):
        index_run(connection, run, messages, discarded)


@contextmanager
def savepoint(connection: Connection, what: str) -> Iterator[None]:
    """Run a part of the transaction in a savepoint; roll back and log when the database rejects its values."""
    try:
        with connection.begin_nested():
            yield
    except REJECTED_VALUES as problem:
        logger.error("cannot store %s: %s", what, problem)


def record_manual_update(
    connection: Connection,
    run: RunRecord,
    request: StoredRequest,
    events: Sequence[LoggedEvent],
    messages: Sequence[SearchableMessage],
    removed_ids: Sequence[str],
) -> None:
    """Insert an ended run with all its events, index its messages and remove those that it deleted from the index.

    Raises:
        NotFound: The thread has been deleted.
    """
    lock_thread(connection, run.thread_id)
    find_thread(connection, run.thread_id, run.owner)
    insert_run(connection, run, request)
    insert_events(connection, events)
    remove_from_index(connection, run.thread_id, run.owner, removed_ids)
    index_messages(connection, run.thread_id, run.owner, messages, run.run_id)
    touch_thread(connection, run.thread_id, None)


def check_not_busy(connection: Connection, thread_id: str, owner: str) -> None:
    """Raise `NotFound` when the thread does not exist, and `Conflict` when it has an active run."""
    lock_thread(connection, thread_id)
    find_thread(connection, thread_id, owner)
    if list_active_runs(connection, thread_id):
        raise Conflict(f"thread {thread_id!r} is busy with a run; wait for its end, or stop it")


def list_unfinished_by_owner(connection: Connection, owner: str, thread_id: str | None) -> Sequence[RunRecord]:
    """Return the owner's running and pending runs in one thread or in all, oldest first."""
    owned = (runs.c.owner == owner) & ACTIVE
    return select_oldest_first(connection, owned if thread_id is None else owned & (runs.c.thread_id == thread_id))


def create_copy(
    connection: Connection, thread_id: str, owner: str, copy_id: str, title: str | None = None, temporary: bool = False
) -> None:
    """Create a thread with the metadata of another, which names its origin; `title` replaces the title."""
    thread = find_thread(connection, thread_id, owner)
    metadata = {**thread.metadata, BRANCHED_FROM: thread_id, **({TEMPORARY: True} if temporary else {})}
    if title is not None and "title" in metadata:
        metadata["title"] = title
    insert_thread(connection, copy_id, owner, metadata, project_id=thread.project_id)
    touch_thread(connection, copy_id, title or thread.title)
