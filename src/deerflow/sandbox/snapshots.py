"""What a thread's files were before a run, so that the run can be undone and what it changed can be told.

One snapshot is kept per thread: a list of everything, and a copy of every file. A file that was not touched since the
last snapshot has its copy already, so a snapshot costs little more than a look at the folders.
"""

import fcntl
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deerflow.domain.errors import FileProblem
from deerflow.domain.files import USER_DATA
from deerflow.sandbox.copies import EMPTY, Keeper, Limits, Manifest, has_content
from deerflow.sandbox.places import AREAS
from deerflow.sandbox.restoring import Restorer
from deerflow.sandbox.tree import FOLDER, Entry, Found, walk_tree

MAX_ENTRIES = 200_000
VERSION = 1


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What is different since the run began, as the paths an agent knows."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


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
            begun_ns = time.time_ns()
            keeper = Keeper(self._contents, last, self.limits, begun_ns)
            manifest = Manifest(run_id, begun_ns, keeper.keep(self._walk()))
            self._write(manifest)
            for unused in keeper.unused():
                (self._contents / unused).unlink()

    def restore(self, run_id: str, given: Collection[str] = ()) -> tuple[str, ...]:
        """Have the files be what they were before `run_id`; the paths of those for which that was not possible.

        The uploads called `given` came from people, so they stay if they are new.
        """
        before = self._read()
        if before is None or before.run_id != run_id:  # it did not come to use any file
            return ()
        with self._locked():
            return shown(Restorer(self._contents, self.user_data, before, given).restore())

    def changes(self, run_id: str) -> FileChanges | None:
        """What is different since `run_id` began; None when it used no file, or a later run has."""
        before = self._read()
        if before is None or before.run_id != run_id:
            return None
        with self._locked():
            now = {found.path: self._is_changed(before, found) for found in self._walk() if not found.entry.is_folder}
        was = {path for path, (entry, _) in before.entries.items() if not entry.is_folder}
        return FileChanges(
            shown(now.keys() - was), shown(path for path in now.keys() & was if now[path]), shown(was - now.keys())
        )

    def _is_changed(self, before: Manifest, found: Found) -> bool:
        """Whether a file is another one than before; one that was only touched is not."""
        if found.path not in before.entries:
            return True
        entry, content = before.entries[found.path]
        if before.is_untouched(found.path, found.entry):
            return False
        if not (entry.is_file and found.entry.is_file and entry.size == found.entry.size) or content is None:
            return not entry.is_same(found.entry)
        return content != EMPTY and not has_content(found, self._contents / content)

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

    def _read(self) -> Manifest | None:
        try:
            stored = json.loads(self._list.read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        if stored["version"] != VERSION:
            return None
        entries = {path: (Entry(*entry), content) for path, (*entry, content) in stored["entries"].items()}
        return Manifest(stored["run_id"], stored["begun_ns"], entries)

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


def shown(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths an agent knows, in order."""
    return tuple(sorted(f"{USER_DATA}/{path}" for path in paths))
