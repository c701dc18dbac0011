"""What a thread's files were before a run, so that the run can be undone and what it changed can be told.

One snapshot is kept per thread: a list of everything, and a copy of every file. A file that was not touched since the
last snapshot has its copy already, so a snapshot costs little more than a look at the folders.
"""

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.domain.changes import WorkspaceChanges
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import USER_DATA
from deerflow.sandbox.comparison import Comparison
from deerflow.sandbox.copies import Keeper, Limits, Manifest
from deerflow.sandbox.places import AREAS
from deerflow.sandbox.restoring import Restorer
from deerflow.sandbox.tree import FOLDER, Entry, Found, walk_to, walk_tree

logger = logging.getLogger(__name__)

MAX_ENTRIES = 200_000
LONG = 60.0
VERSION = 1

Entries = dict[str, tuple[Entry, str | None]]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshot of one thread, kept in `folder`; its files are in `user_data`. Every method blocks."""

    folder: Path
    user_data: Path
    limits: Limits = Limits()

    def take(self, run_id: str) -> None:
        """Remember the files as they are before `run_id` changes them; the snapshot of an earlier run is forgotten.

        Raises:
            FileProblem: There are too many.
        """
        with self._locked():
            last = self._read()
            if last is not None and last.run_id == run_id:  # an earlier attempt of it took one
                return
            self._contents.mkdir(exist_ok=True)
            self._adopted.unlink(missing_ok=True)
            begun_ns = time.time_ns()
            keeper = Keeper(self._contents, last, self.limits, begun_ns)
            manifest = Manifest(run_id, begun_ns, keeper.keep(self._walk()))
            self._write(manifest)
            for unused in keeper.unused():
                (self._contents / unused).unlink()

    def restore(self, run_id: str) -> tuple[str, ...]:
        """Have the files be what they were before `run_id`; the paths of those for which that was not possible."""
        if not self._list.exists():
            return ()
        with self._locked():
            before = self._read()
            if before is None or before.run_id != run_id:  # it did not come to use any file
                return ()
            return shown(Restorer(self._contents, self.user_data, before).restore())

    def changes(self, run_id: str, seconds: float = LONG) -> WorkspaceChanges | None:
        """What is different since `run_id` began; None when it used no file, or a later run has.

        Raises:
            FileProblem: It took longer than `seconds` to find out.
        """
        if not self._list.exists():
            return None
        until = time.monotonic() + seconds
        with self._locked():
            before = self._read()
            if before is None or before.run_id != run_id:
                return None
            comparison = Comparison(self._contents, before)
            for found in self._walk():
                comparison.see(found)
                if time.monotonic() > until:
                    raise FileProblem(f"the thread has so many files that looking for changes took over {seconds:g} s")
            return comparison.result()

    @contextmanager
    def users_change(self, paths: Iterable[str]) -> Iterator[None]:
        """A moment in which a person changes files, and no run: what they are then is what was there before the run.

        So undoing the run leaves them alone, and they are not among what it has changed. `paths` are as the agent
        knows them.
        """
        with self._locked():
            yield
            if self._list.exists():
                try:
                    self._adopt([path.removeprefix(f"{USER_DATA}/") for path in paths])
                except OSError as problem:
                    logger.warning("what a person did to files may be undone with a run: %s", problem)

    def _adopt(self, paths: Iterable[str]) -> None:
        """Add to what is remembered, without reading or writing all of it."""
        self._contents.mkdir(exist_ok=True)
        keeper = Keeper(self._contents, None, self.limits, begun_ns=0)  # copies under names of their own
        with self._adopted.open("a") as file:
            for path in paths:
                kept = keeper.keep(walk_to(self.user_data, path))
                lines = [[path]] if path not in kept else []
                file.writelines(
                    json.dumps(line, separators=(",", ":")) + "\n"
                    for line in [*lines, *([found, *entry, copy] for found, (entry, copy) in kept.items())]
                )

    def _walk(self) -> Iterator[Found]:
        for number, found in enumerate(walk_tree(self.user_data, tuple(AREAS.values()))):
            if number >= MAX_ENTRIES:
                raise FileProblem(
                    f"the thread has more than {MAX_ENTRIES} files; what a run does to them is not undone"
                )
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

    def _read(self) -> Manifest | None:
        try:
            stored = json.loads(self._list.read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        if stored["version"] != VERSION:
            return None
        entries = {path: (Entry(*entry), content) for path, (*entry, content) in stored["entries"].items()}
        self._add_adopted(entries)
        return Manifest(stored["run_id"], stored["begun_ns"], entries)

    def _add_adopted(self, entries: Entries) -> None:
        """Have what people did meanwhile be part of what was there."""
        with suppress(FileNotFoundError), self._adopted.open() as file:
            for line in file:
                with suppress(ValueError):  # a process died in the middle of it
                    take_in(entries, *json.loads(line))

    def _write(self, manifest: Manifest) -> None:
        entries = {path: (*entry, content) for path, (entry, content) in manifest.entries.items()}
        stored = {"version": VERSION, "run_id": manifest.run_id, "begun_ns": manifest.begun_ns, "entries": entries}
        unfinished = self._list.with_suffix(".new")
        # Names of files may be no text; as escapes they pass.
        unfinished.write_text(json.dumps(stored, separators=(",", ":")))
        unfinished.replace(self._list)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time: a cancelled run does not end what it began in a thread."""
        self.user_data.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self.folder, FOLDER)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def take_in(entries: Entries, path: str, *known: Any) -> None:
    """Note what is at a path now; nothing, where nothing is known."""
    if not known:
        for gone in [each for each in entries if each == path or each.startswith(f"{path}/")]:
            del entries[gone]
        return
    *fields, content = known
    entry = Entry(*fields)
    if not (entry.is_folder and path in entries):  # what a folder was is known better from before
        entries[path] = (entry, content)


def shown(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths an agent knows, in order."""
    return tuple(sorted(f"{USER_DATA}/{path}" for path in paths))
