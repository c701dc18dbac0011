"""Tells what a run did to files, in one walk over what they are now.

Most files are the same by what the system says of them, without a look into them; only those that are not are read,
while the walk is at them.
"""

import os
from dataclasses import replace
from pathlib import Path

from deerflow.domain.changes import ChangeStatus, FileChange, LeftOut, WorkspaceChanges
from deerflow.domain.files import USER_DATA
from deerflow.sandbox.copies import EMPTY, Manifest, has_content
from deerflow.sandbox.differences import compare
from deerflow.sandbox.files import READ, STAGED, UNFINISHED
from deerflow.sandbox.tree import Entry, Found

MAX_TEXT = 256 * 1024
MAX_DIFF = 64 * 1024
MAX_DIFFS = 512 * 1024
"""Characters of all diffs of a run together."""
MAX_LISTED = 1000
NOTHING_YET = b""

Text = bytes | LeftOut
"""The content of a file that may be a text, or why there is none."""


class Comparison:
    """Takes in what a walk finds, and then tells what is different."""

    def __init__(self, contents: Path, before: Manifest) -> None:
        self._contents = contents
        self._before = before
        self._gone = {path for path, (entry, _) in before.entries.items() if not entry.is_folder}
        self._by_inode = {before.entries[path][0].inode: path for path in self._gone}
        self._found: list[FileChange] = []
        self._moved: list[tuple[str, FileChange]] = []
        self._room = MAX_DIFFS

    def see(self, found: Found) -> None:
        """Take in what is at a path now."""
        if found.entry.is_folder or found.name.startswith((UNFINISHED, STAGED)):
            return
        if found.path not in self._gone:
            self._see_new(found)
            return
        self._gone.discard(found.path)
        if self._is_changed(found):
            self._found.append(self._change(found.path, found))

    def result(self) -> WorkspaceChanges:
        """What is different, when the walk is over."""
        for source, change in self._moved:
            if source in self._gone:
                self._gone.discard(source)
                self._found.append(renamed(source, change, self._before.entries[source][0]))
            else:
                self._found.append(change)
        self._found += [self._change(path, None) for path in self._gone]
        return WorkspaceChanges.of(self._found, MAX_LISTED)

    def _see_new(self, found: Found) -> None:
        source = self._by_inode.get(found.entry.inode)
        change = self._change(found.path, found)
        if source is not None and is_moved(self._before.entries[source][0], found.entry):
            self._moved.append((source, change))
        else:
            self._found.append(change)

    def _is_changed(self, found: Found) -> bool:
        """Whether a file is another one than before; one that was only touched is not."""
        entry, content = self._before.entries[found.path]
        if self._before.is_untouched(found.path, found.entry):
            return False
        if not (entry.is_file and found.entry.is_file and entry.size == found.entry.size) or content is None:
            return not entry.is_same(found.entry)
        return content != EMPTY and not has_content(found, self._contents / content)

    def _change(self, path: str, found: Found | None) -> FileChange:
        """How what was at a path became what is there now."""
        before = self._before.entries[path][0] if path in self._before.entries else None
        before = None if before is None or before.is_folder else before
        now = found.entry if found else None
        is_link = any(entry is not None and entry.is_link for entry in (before, now))
        change = FileChange(shown_path(path), status_of(before, now), size_of(before), size_of(now), is_link=is_link)
        old = NOTHING_YET if before is None else self._old_text(path)
        return self._with_diff(change, old, NOTHING_YET if found is None else new_text(found))

    def _with_diff(self, change: FileChange, old: Text, new: Text) -> FileChange:
        for side in (old, new):
            if isinstance(side, str):
                return replace(change, left_out=side)
        assert isinstance(old, bytes) and isinstance(new, bytes)
        before, after = decoded(old), decoded(new)
        if before is None or after is None:
            return replace(change, left_out="binary")
        if len(self._found) >= MAX_LISTED:  # nobody would see it
            return replace(change, left_out="too large")
        names = (None if change.status == "added" else change.path, None if change.status == "removed" else change.path)
        made = compare(before, after, *names)
        counted = replace(change, lines_added=made.lines_added, lines_removed=made.lines_removed)
        if len(made.diff) > min(MAX_DIFF, self._room):
            return replace(counted, left_out="too large")
        self._room -= len(made.diff)
        return replace(counted, diff=made.diff)

    def _old_text(self, path: str) -> Text:
        entry, content = self._before.entries[path]
        if entry.is_link:
            return os.fsencode(entry.target)
        if content is None:
            return "no copy" if entry.is_file else "binary"
        if entry.size > MAX_TEXT:
            return "too large"
        try:
            return (self._contents / content).read_bytes() if content != EMPTY else b""
        except OSError:
            return "no copy"


def new_text(found: Found) -> Text:
    """The content of a file that a walk is at."""
    if found.entry.is_link:
        return os.fsencode(found.entry.target)
    if not found.entry.is_file:
        return "binary"
    if found.links > 1:  # one of its names may be outside
        return "several names"
    if found.entry.size > MAX_TEXT:
        return "too large"
    try:
        descriptor = os.open(found.name, READ | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found.folder)
        with os.fdopen(descriptor, "rb") as file:
            is_it = os.fstat(descriptor).st_ino == found.entry.inode
            return file.read(MAX_TEXT) if is_it else "no copy"
    except OSError:
        return "no copy"


def decoded(content: bytes) -> str | None:
    """The text that a content is, if it is one."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def is_moved(before: Entry, now: Entry) -> bool:
    """Whether a file under another name is the one that was there: only its name, and so its ctime, is new."""
    return now.is_file and (before.size, before.mtime_ns, before.mode) == (now.size, now.mtime_ns, now.mode)


def renamed(source: str, change: FileChange, before: Entry) -> FileChange:
    """A file that is somewhere else now, unchanged."""
    return FileChange(change.path, "renamed", before.size, change.size, previous_path=shown_path(source))


def status_of(before: Entry | None, now: Entry | None) -> ChangeStatus:
    """What became of a file."""
    if now is None:
        return "removed"
    return "added" if before is None else "changed"


def size_of(entry: Entry | None) -> int | None:
    """How many bytes something has; links and what is no file have none of their own."""
    return entry.size if entry is not None and entry.is_file else None


def shown_path(path: str) -> str:
    """The path an agent knows, as text: bytes that are none are written out."""
    return os.fsencode(f"{USER_DATA}/{path}").decode(errors="backslashreplace")
