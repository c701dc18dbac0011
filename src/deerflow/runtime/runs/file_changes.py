"""What runs do to the files of their threads: found out when a run ends, kept, and told."""

import asyncio
import logging
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from deerflow.domain.changes import FileChange, WorkspaceChanges
from deerflow.domain.errors import FileProblem, StorageUnavailable
from deerflow.domain.runs import RunRecord
from deerflow.persistence.database import Database
from deerflow.persistence.file_changes import find_file_changes, keep_file_changes
from deerflow.runtime.journal import RunLog
from deerflow.runtime.serialization import to_json
from deerflow.sandbox.snapshots import Snapshots

logger = logging.getLogger(__name__)

EVENT = "workspace_changes"
"""The type of the custom event that tells readers how many files a run has changed."""


class FileChanges:
    """Compares the files of a thread with what they were before a run."""

    def __init__(self, database: Database, snapshots_of: Callable[[RunRecord], Snapshots]) -> None:
        self._database = database
        self._snapshots_of = snapshots_of

    async def note(self, run: RunRecord, log: RunLog, seconds: float) -> None:
        """Keep what a run has done, which is about to end, and tell its readers; it may take so long to find out.

        What cannot be told is no reason for the run to fail.
        """
        changes = await self._look(run, seconds)
        if not changes:
            return
        keep = partial(keep_file_changes, run_id=run.run_id, owner=run.owner, data=to_stored(changes))
        try:
            await self._database.write(keep)
        except StorageUnavailable as problem:
            logger.warning("what run %s did to files could not be kept: %s", run.run_id, problem)
            return
        log.append("custom", to_json({"type": EVENT, **counts_of(changes)}))

    async def of(self, run: RunRecord) -> WorkspaceChanges:
        """What a run has done; as far as it has come, if it is under way."""
        if not run.status.is_final:
            return await self._look(run, seconds=10.0)
        stored = await self._database.read(partial(find_file_changes, run_id=run.run_id, owner=run.owner))
        return WorkspaceChanges() if stored is None else from_stored(stored)

    async def _look(self, run: RunRecord, seconds: float) -> WorkspaceChanges:
        try:
            found = await asyncio.to_thread(self._snapshots_of(run).changes, run.run_id, seconds)
        except (OSError, FileProblem) as problem:
            logger.warning("what run %s did to files is not known: %s", run.run_id, problem)
            return WorkspaceChanges(problem=str(problem))
        return found or WorkspaceChanges()


def counts_of(changes: WorkspaceChanges) -> dict[str, int]:
    """How many files are different, in which way."""
    return {
        "added": changes.added,
        "changed": changes.changed,
        "removed": changes.removed,
        "renamed": changes.renamed,
    }


def to_stored(changes: WorkspaceChanges) -> bytes:
    """The changes as they are kept."""
    return zlib.compress(orjson.dumps({"version": 1, "changes": changes}))


def from_stored(stored: bytes) -> WorkspaceChanges:
    """The changes that were kept."""
    fields: dict[str, Any] = orjson.loads(zlib.decompress(stored))["changes"]
    files = tuple(FileChange(**each) for each in fields.pop("files"))
    return replace(WorkspaceChanges(**fields), files=files)
