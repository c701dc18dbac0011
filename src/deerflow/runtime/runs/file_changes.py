"""File changes of runs: computed when a run ends, stored and published."""

import asyncio
import logging
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from deerflow.domain.errors import FileProblem, StorageUnavailable
from deerflow.domain.files import FileChange, WorkspaceChanges
from deerflow.domain.runs import RunRecord
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.runs import read_file_changes, store_file_changes
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.journal.serialization import to_json
from deerflow.sandbox.snapshots.snapshots import Snapshots

logger = logging.getLogger(__name__)

EVENT = "workspace_changes"
"""Type of the custom event with the number of changed files."""


class FileChanges:
    """Comparison of the files of a thread with their snapshot from before a run."""

    def __init__(self, database: Database, snapshots_of: Callable[[RunRecord], Snapshots]) -> None:
        self._database = database
        self._snapshots_of = snapshots_of

    async def note(self, run: RunRecord, log: RunLog, seconds: float) -> None:
        """Store and publish the file changes of a run that is about to end, within a time limit.

        A failure is logged and does not fail the run.
        """
        changes = await self._look(run, seconds)
        if not changes:
            return
        keep = partial(store_file_changes, run_id=run.run_id, owner=run.owner, data=serialize_changes(changes))
        try:
            await self._database.write(keep)
        except StorageUnavailable as problem:
            logger.warning("what run %s did to files could not be kept: %s", run.run_id, problem)
            return
        log.append("custom", to_json({"type": EVENT, **count_changes(changes)}))

    async def of(self, run: RunRecord) -> WorkspaceChanges:
        """Return the file changes of a run; for an active run, the changes so far."""
        if not run.status.is_final:
            return await self._look(run, seconds=10.0)
        stored = await self._database.read(partial(read_file_changes, run_id=run.run_id, owner=run.owner))
        return WorkspaceChanges() if stored is None else deserialize_changes(stored)

    async def _look(self, run: RunRecord, seconds: float) -> WorkspaceChanges:
        snapshots = self._snapshots_of(run)
        if not snapshots.exists:
            return WorkspaceChanges()
        try:
            found = await asyncio.to_thread(snapshots.changes, run.run_id, seconds)
        except (OSError, FileProblem) as problem:
            logger.warning("what run %s did to files is not known: %s", run.run_id, problem)
            return WorkspaceChanges(problem=str(problem))
        return found or WorkspaceChanges()


def count_changes(changes: WorkspaceChanges) -> dict[str, int]:
    """Return the number of changed files by kind of change."""
    return {
        "added": changes.added,
        "changed": changes.changed,
        "removed": changes.removed,
        "renamed": changes.renamed,
    }


def serialize_changes(changes: WorkspaceChanges) -> bytes:
    """Return the changes as stored JSON."""
    return zlib.compress(orjson.dumps({"version": 1, "changes": changes}))


def deserialize_changes(stored: bytes) -> WorkspaceChanges:
    """Return the changes from stored JSON."""
    fields: dict[str, Any] = orjson.loads(zlib.decompress(stored))["changes"]
    files = tuple(FileChange(**each) for each in fields.pop("files"))
    return replace(WorkspaceChanges(**fields), files=files)
