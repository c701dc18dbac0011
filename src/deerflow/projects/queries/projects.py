"""Projects, their files and the queue of the indexer. Queries for users are restricted to an owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, delete, func, insert, or_, select, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import DELETED_OWNER, new_id
from deerflow.domain.projects import IndexState, ProjectFile, ProjectRecord, RunProject
from deerflow.persistence.queries.threads import find_thread, lock_thread
from deerflow.persistence.tables import passages, project_files, projects, threads

MAX_PROJECTS = 1000
"""Number of projects that are listed."""
PURGE_BATCH = 200
"""Number of passages that are deleted in one transaction."""


@dataclass(frozen=True, slots=True)
class QueuedFile:
    """File that a process has claimed for indexing."""

    file_id: str
    project_id: str
    owner: str
    name: str
    attempts: int
    claim: str


@dataclass(frozen=True, slots=True)
class PurgedProject:
    """Deleted project whose files and passages are still there."""

    project_id: str
    owner: str


def select_projects(owner: str) -> Select[Any]:
    """Select the owner's projects with the number of their threads and files."""
    columns = projects.c
    of_project = (threads.c.project_id == columns.project_id) & (threads.c.owner == owner)
    thread_count = select(func.count()).select_from(threads).where(of_project).scalar_subquery()
    own = project_files.c.project_id == columns.project_id
    file_count = select(func.count()).select_from(project_files).where(own).scalar_subquery()
    return select(
        *(columns[name] for name in ("project_id", "owner", "name", "instructions", "created_at", "updated_at")),
        thread_count.label("threads"),
        file_count.label("files"),
    ).where(columns.owner == owner)


def create_project(connection: Connection, project_id: str, owner: str, name: str, instructions: str) -> ProjectRecord:
    """Create a project."""
    now = datetime.now(UTC)
    row = {"project_id": project_id, "owner": owner, "name": name, "instructions": instructions}
    connection.execute(insert(projects), {**row, "created_at": now, "updated_at": now})
    return find_project(connection, project_id, owner)


def list_projects(connection: Connection, owner: str) -> Sequence[ProjectRecord]:
    """Return the owner's projects by name."""
    query = select_projects(owner).order_by(func.lower(projects.c.name), projects.c.project_id).limit(MAX_PROJECTS)
    return [ProjectRecord(**row._mapping) for row in connection.execute(query)]


def find_project(connection: Connection, project_id: str, owner: str) -> ProjectRecord:
    """Return a project.

    Raises:
        NotFound: It does not exist, or has another owner.
    """
    row = connection.execute(select_projects(owner).where(projects.c.project_id == project_id)).first()
    if row is None:
        raise NotFound(f"no project {project_id!r}")
    return ProjectRecord(**row._mapping)


def update_project(
    connection: Connection, project_id: str, owner: str, name: str | None, instructions: str | None
) -> ProjectRecord:
    """Change the name or the instructions of a project; None leaves a field as it is."""
    find_project(connection, project_id, owner)
    given = {"name": name, "instructions": instructions}
    changes = {key: value for key, value in given.items() if value is not None}
    owned = (projects.c.project_id == project_id) & (projects.c.owner == owner)
    connection.execute(update(projects).where(owned), {**changes, "updated_at": datetime.now(UTC)})
    return find_project(connection, project_id, owner)


def delete_project(connection: Connection, project_id: str, owner: str) -> Sequence[str]:
    """Hide a project from its owner and take its threads out of it; return their ids. The rest is purged later."""
    find_project(connection, project_id, owner)
    own = (threads.c.project_id == project_id) & (threads.c.owner == owner)
    moved = connection.execute(select(threads.c.thread_id).where(own)).scalars().all()
    connection.execute(update(threads).where(own), {"project_id": None})
    hidden = {"owner": DELETED_OWNER, "former_owner": owner, "name": "", "instructions": ""}
    connection.execute(update(projects).where(projects.c.project_id == project_id), hidden)
    stopped = {"state": "failed", "claim": None, "claimed_until": None, "problem": None}
    connection.execute(update(project_files).where(project_files.c.project_id == project_id), stopped)
    return moved


def find_purge(connection: Connection, owner: str | None = None) -> PurgedProject | None:
    """Return a deleted project of a user, or of any, that is not purged yet."""
    query = select(projects.c.project_id, projects.c.former_owner).where(projects.c.owner == DELETED_OWNER)
    if owner is not None:
        query = query.where(projects.c.former_owner == owner)
    row = connection.execute(query.limit(1)).first()
    return None if row is None else PurgedProject(row.project_id, row.former_owner)


def purge_passages(connection: Connection, project_id: str) -> bool:
    """Delete a batch of the passages of a deleted project; return whether there may be more."""
    some = select(passages.c.row_id).join(project_files, project_files.c.file_id == passages.c.file_id)
    row_ids = connection.execute(some.where(project_files.c.project_id == project_id).limit(PURGE_BATCH)).scalars()
    found = list(row_ids)
    connection.execute(delete(passages).where(passages.c.row_id.in_(found)))
    return len(found) == PURGE_BATCH


def finish_purge(connection: Connection, project_id: str) -> None:
    """Delete the rows that are left of a deleted project."""
    gone = (projects.c.project_id == project_id) & (projects.c.owner == DELETED_OWNER)
    connection.execute(delete(projects).where(gone))


def move_thread(connection: Connection, thread_id: str, owner: str, project_id: str | None) -> str | None:
    """Move a thread to a project, or out of its project; return the project it was in.

    Raises:
        NotFound: Thread or project does not exist, or has another owner.
        Conflict: The thread has an active run.
    """
    lock_thread(connection, thread_id)
    thread = find_thread(connection, thread_id, owner)
    if project_id is not None:
        find_project(connection, project_id, owner)
    if thread.status == "busy":
        raise Conflict(f"thread {thread_id!r} is busy; wait for its run or stop it, then move the thread")
    owned = (threads.c.thread_id == thread_id) & (threads.c.owner == owner)
    connection.execute(update(threads).where(owned), {"project_id": project_id})
    return thread.project_id


IS_SEARCHABLE = select(project_files.c.file_id).where(
    project_files.c.project_id == projects.c.project_id, project_files.c.state == "ready"
)
# Statements of every run are built once: building one takes longer than SQLite takes to execute it.
FIND_RUN_PROJECT = (
    select(projects.c.project_id, projects.c.instructions, IS_SEARCHABLE.exists().label("is_searchable"))
    .join(threads, threads.c.project_id == projects.c.project_id)
    .where(
        threads.c.thread_id == bindparam("thread"),
        threads.c.owner == bindparam("of_owner"),
        projects.c.owner == bindparam("of_owner"),
    )
)
FIND_ANY_PROJECT = select(projects.c.project_id).where(projects.c.owner == bindparam("of_owner")).limit(1)


def find_run_project(connection: Connection, thread_id: str, owner: str) -> tuple[RunProject | None, bool]:
    """Return the project of a thread for its runs, None if it is in none, and whether the owner has any project."""
    row = connection.execute(FIND_RUN_PROJECT, {"thread": thread_id, "of_owner": owner}).first()
    if row is not None:
        return RunProject(row.project_id, row.instructions, bool(row.is_searchable)), True
    return None, connection.execute(FIND_ANY_PROJECT, {"of_owner": owner}).first() is not None


def select_files(project_id: str, owner: str) -> Select[Any]:
    """Select the files of a project of the owner."""
    names = ("file_id", "project_id", "name", "size", "state", "problem", "unit", "pages", "passages", "created_at")
    own = (projects.c.project_id == project_id) & (projects.c.owner == owner)
    joined = projects.c.project_id == project_files.c.project_id
    return select(*(project_files.c[name] for name in names)).join(projects, joined).where(own)


def add_files(
    connection: Connection, project_id: str, owner: str, files: Sequence[tuple[str, int]], limit: int
) -> Sequence[ProjectFile]:
    """Add files, by name and size, to the project and to the queue of the indexer.

    Raises:
        Conflict: The project would have more than `limit` files.
    """
    project = find_project(connection, project_id, owner)
    if project.files + len(files) > limit:
        raise Conflict(f"a project can have at most {limit} files, and this one has {project.files}")
    now = datetime.now(UTC)
    counts = {"pages": 0, "passages": 0, "attempts": 0}
    for name, size in files:
        row = {"file_id": new_id(), "project_id": project_id, "name": name, "size": size, "state": "waiting"}
        connection.execute(insert(project_files), {**row, **counts, "created_at": now})
    connection.execute(update(projects).where(projects.c.project_id == project_id), {"updated_at": now})
    added = select_files(project_id, owner).where(project_files.c.name.in_([name for name, _ in files]))
    return [to_file(row) for row in connection.execute(added.order_by(project_files.c.name))]


def list_files(
    connection: Connection, project_id: str, owner: str, limit: int, offset: int, state: IndexState | None
) -> Sequence[ProjectFile]:
    """Return the files of a project by name, or raise `NotFound`."""
    find_project(connection, project_id, owner)
    query = select_files(project_id, owner)
    if state is not None:
        query = query.where(project_files.c.state == state)
    ordered = query.order_by(func.lower(project_files.c.name), project_files.c.file_id)
    return [to_file(row) for row in connection.execute(ordered.limit(limit).offset(offset))]


def count_states(connection: Connection, project_id: str, owner: str) -> dict[str, int]:
    """Return the number of files in each state, or raise `NotFound`."""
    find_project(connection, project_id, owner)
    query = select(project_files.c.state, func.count()).where(project_files.c.project_id == project_id)
    return {row[0]: row[1] for row in connection.execute(query.group_by(project_files.c.state))}


def find_file(connection: Connection, project_id: str, owner: str, file_id: str) -> ProjectFile:
    """Return a file, or raise `NotFound`."""
    row = connection.execute(select_files(project_id, owner).where(project_files.c.file_id == file_id)).first()
    if row is None:
        raise NotFound(f"no file {file_id!r} in project {project_id!r}")
    return to_file(row)


def delete_file(connection: Connection, project_id: str, owner: str, file_id: str) -> ProjectFile:
    """Delete a file with its passages, and return it."""
    file = find_file(connection, project_id, owner, file_id)
    connection.execute(delete(passages).where(passages.c.file_id == file_id))
    connection.execute(delete(project_files).where(project_files.c.file_id == file_id))
    return file


def requeue_file(connection: Connection, project_id: str, owner: str, file_id: str) -> ProjectFile:
    """Let the indexer read a file again.

    Raises:
        Conflict: It waits or is read already.
    """
    file = find_file(connection, project_id, owner, file_id)
    if file.state in ("waiting", "indexing"):
        raise Conflict(f"file {file_id!r} is {file.state} already")
    again = {"state": "waiting", "problem": None, "attempts": 0, "claim": None, "claimed_until": None}
    connection.execute(update(project_files).where(project_files.c.file_id == file_id), again)
    return find_file(connection, project_id, owner, file_id)


def claim_files(connection: Connection, claim: str, lease: timedelta, limit: int) -> Sequence[QueuedFile]:
    """Claim the files of one project that wait the longest, or whose claim has expired. A file tried before is alone.

    It may be the one that ended the job of the whole batch.
    """
    now = datetime.now(UTC)
    columns = project_files.c
    expired = (columns.state == "indexing") & (columns.claimed_until < now)
    due: ColumnElement[bool] = or_(columns.state == "waiting", expired)
    query = (
        select(columns.file_id, columns.project_id, projects.c.owner, columns.name, columns.attempts)
        .join(projects, projects.c.project_id == columns.project_id)
        .where(due, projects.c.owner != DELETED_OWNER)
        .order_by(columns.attempts, columns.created_at, columns.file_id)
    )
    first = connection.execute(query.limit(1)).first()
    if first is None:
        return []
    same = query.where(columns.project_id == first.project_id, columns.attempts == 0).limit(limit)
    found = [first] if first.attempts else connection.execute(same).all()
    taken = {"state": "indexing", "claim": claim, "claimed_until": now + lease, "attempts": columns.attempts + 1}
    ids = [row.file_id for row in found]
    connection.execute(update(project_files).where(columns.file_id.in_(ids), due).values(**taken))
    claimed = set(connection.execute(select(columns.file_id).where(columns.claim == claim)).scalars())
    return [QueuedFile(*row[:4], attempts=row.attempts + 1, claim=claim) for row in found if row.file_id in claimed]


def renew_claims(connection: Connection, claim: str, lease: timedelta) -> None:
    """Extend the claims of a batch."""
    until = datetime.now(UTC) + lease
    connection.execute(update(project_files).where(project_files.c.claim == claim), {"claimed_until": until})


def release_files(connection: Connection, claim: str, *, refund: bool) -> None:
    """Return the unfinished files of a batch to the queue; with `refund` the attempt does not count."""
    values: dict[str, Any] = {"state": "waiting", "claim": None, "claimed_until": None}
    if refund:
        values["attempts"] = project_files.c.attempts - 1
    claimed = (project_files.c.claim == claim) & (project_files.c.state == "indexing")
    connection.execute(update(project_files).where(claimed).values(**values))


def is_claimed(file: QueuedFile) -> ColumnElement[bool]:
    """Return the condition that a file is still claimed by its batch."""
    columns = project_files.c
    return (columns.file_id == file.file_id) & (columns.claim == file.claim) & (columns.state == "indexing")


def fail_file(connection: Connection, file: QueuedFile, problem: str) -> None:
    """Record that a file cannot be indexed."""
    ended = {"state": "failed", "problem": problem, "claim": None, "claimed_until": None, "pages": 0, "passages": 0}
    if connection.execute(update(project_files).where(is_claimed(file)), ended).rowcount:
        connection.execute(delete(passages).where(passages.c.file_id == file.file_id))


def to_file(row: Row[Any]) -> ProjectFile:
    """Convert a row to a file."""
    return ProjectFile(**row._mapping)
