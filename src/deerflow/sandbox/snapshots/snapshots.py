"""Snapshots of a thread's files before a run, used to undo the run and to list its changes.

One snapshot is stored per thread: a manifest of all files, and a copy of each. Files that did not change since the last
snapshot keep their copy, so a snapshot costs little more than a walk over the folders.
"""

import json
import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.config.loader.files import acquire_lock
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import USER_DATA, WorkspaceChanges
from deerflow.sandbox.files.mounts import AREAS
from deerflow.sandbox.files.traversal import FOLDER_FLAGS, FileStat, TreeEntry, walk_path, walk_tree
from deerflow.sandbox.snapshots.comparison import SnapshotComparison
from deerflow.sandbox.snapshots.copies import CopyStore, SnapshotLimits, SnapshotManifest
from deerflow.sandbox.snapshots.restore import Restorer

logger = logging.getLogger(__name__)

MAX_ENTRIES = 200_000
COMPARE_TIMEOUT_S = 60.0
VERSION = 1

Entries = dict[str, tuple[FileStat, str | None]]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Snapshot of one thread, stored in `folder`; its files are in `user_data`. Every method blocks."""

    folder: Path
    user_data: Path
    limits: SnapshotLimits = SnapshotLimits()

    @property
    def exists(self) -> bool:
        """Whether a run of the thread has used files. Asks for the status of one file only."""
        return self._list.exists()

    def take(self, run_id: str) -> None:
        """Take a snapshot before `run_id` changes files; it replaces the snapshot of an earlier run.

        Raises:
            FileProblem: There are too many files.
        """
        with self._locked():
            last = self._read()
            if last is not None and last.run_id == run_id:  # taken by an earlier attempt
                return
            self._contents.mkdir(exist_ok=True)
            self._adopted.unlink(missing_ok=True)
            begun_ns = time.time_ns()
            store = CopyStore(self._contents, last, self.limits, begun_ns)
            manifest = SnapshotManifest(run_id, begun_ns, store.save(self._walk()))
            self._write(manifest)
            for unused in store.unused():
                (self._contents / unused).unlink()

    def restore(self, run_id: str) -> tuple[str, ...]:
        """Restore the files to their state before `run_id`; return the paths that failed."""
        if not self.exists:
            return ()
        with self._locked():
            before = self._read()
            if before is None or before.run_id != run_id:  # the run did not use any file
                return ()
            return to_agent_paths(Restorer(self._contents, self.user_data, before).restore())

    def changes(self, run_id: str, seconds: float = COMPARE_TIMEOUT_S) -> WorkspaceChanges | None:
        """Return the changes since `run_id` started, or None if it used no files or a later run did.

        Raises:
            FileProblem: The comparison took longer than `seconds`.
        """
        if not self.exists:
            return None
        until = time.monotonic() + seconds
        with self._locked():
            before = self._read()
            if before is None or before.run_id != run_id:
                return None
            comparison = SnapshotComparison(self._contents, before)
            for found in self._walk():
                comparison.add(found)
                if time.monotonic() > until:
                    raise FileProblem(f"the thread has too many files: finding changes took over {seconds:g} s")
            return comparison.result()

    @contextmanager
    def adopt_user_changes(self, paths: Iterable[str]) -> Iterator[None]:
        """Context manager for changes made by a user: they become part of the state before the run.

        Undoing the run keeps them, and they are not among its changes. `paths` are as the agent sees them.
        """
        with self._locked():
            yield
            if self.exists:
                try:
                    self._adopt([path.removeprefix(f"{USER_DATA}/") for path in paths])
                except OSError as problem:
                    logger.warning("changes by a user may be undone together with a run: %s", problem)

    def _adopt(self, paths: Iterable[str]) -> None:
        """Append to the manifest without rewriting it."""
        self._contents.mkdir(exist_ok=True)
        store = CopyStore(self._contents, None, self.limits, begun_ns=0)  # copies get unique names
        with self._adopted.open("a") as file:
            for path in paths:
                kept = store.save(walk_path(self.user_data, path))
                lines = [[path]] if path not in kept else []
                file.writelines(
                    json.dumps(line, separators=(",", ":")) + "\n"
                    for line in [*lines, *([found, *entry, copy] for found, (entry, copy) in kept.items())]
                )

    def _walk(self) -> Iterator[TreeEntry]:
        for number, found in enumerate(walk_tree(self.user_data, tuple(AREAS.values()))):
            if number >= MAX_ENTRIES:
                raise FileProblem(f"the thread has more than {MAX_ENTRIES} files; changes of a run cannot be undone")
            yield found

    @property
    def _contents(self) -> Path:
        return self.folder / "contents"

    @property
    def _list(self) -> Path:
        return self.folder / "list.json"

    @property
    def _adopted(self) -> Path:
        return self.folder / "adopted.jsonl"

    def _read(self) -> SnapshotManifest | None:
        try:
            stored = json.loads(self._list.read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        if stored["version"] != VERSION:
            return None
        entries = {path: (FileStat(*entry), content) for path, (*entry, content) in stored["entries"].items()}
        self._add_adopted(entries)
        return SnapshotManifest(stored["run_id"], stored["begun_ns"], entries)

    def _add_adopted(self, entries: Entries) -> None:
        """Apply the changes made by users."""
        with suppress(FileNotFoundError), self._adopted.open() as file:
            for line in file:
                with suppress(ValueError):  # the process died while writing this line
                    apply_adopted(entries, *json.loads(line))

    def _write(self, manifest: SnapshotManifest) -> None:
        entries = {path: (*entry, content) for path, (entry, content) in manifest.entries.items()}
        stored = {"version": VERSION, "run_id": manifest.run_id, "begun_ns": manifest.begun_ns, "entries": entries}
        unfinished = self._list.with_suffix(".new")
        # File names may be invalid UTF-8; JSON escapes them.
        unfinished.write_text(json.dumps(stored, separators=(",", ":")))
        unfinished.replace(self._list)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the snapshot: a cancelled run does not stop its worker thread."""
        self.user_data.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self.folder, FOLDER_FLAGS)
        try:
            acquire_lock(descriptor)
            yield
        finally:
            os.close(descriptor)


def apply_adopted(entries: Entries, path: str, *known: Any) -> None:
    """Apply an adopted change to the entries; without a stat, the path was removed."""
    if not known:
        for removed in [each for each in entries if each == path or each.startswith(f"{path}/")]:
            del entries[removed]
        return
    *fields, content = known
    entry = FileStat(*fields)
    if not (entry.is_folder and path in entries):  # the stat taken before the run is the right one for a folder
        entries[path] = (entry, content)


def to_agent_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths as the agent sees them, sorted."""
    return tuple(sorted(f"{USER_DATA}/{path}" for path in paths))
