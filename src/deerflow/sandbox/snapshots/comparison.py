"""Comparison of a thread's files with the snapshot taken before a run, in one walk, and line diffs of texts.

Most files are equal by their metadata and are not read; only the others are read, during the walk.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW
from deerflow.domain.files import USER_DATA, ChangeStatus, DiffOmission, FileChange, WorkspaceChanges
from deerflow.sandbox.files.files import READ_FLAGS, TEMPORARY_PREFIX, UPLOAD_PREFIX
from deerflow.sandbox.files.traversal import FileStat, TreeEntry
from deerflow.sandbox.snapshots.copies import NO_CONTENT, SnapshotManifest, has_content

MAX_STEPS = 100_000
CONTEXT = 3
NO_NEWLINE = "\\ No newline at end of file\n"

Edit = tuple[str, str]
"""` `, `-` or `+`, and a line with its line ending."""


@dataclass(frozen=True, slots=True)
class TextDiff:
    """Diff of two texts."""

    diff: str
    lines_added: int
    lines_removed: int


def diff_texts(before: str, after: str, old_name: str | None, new_name: str | None) -> TextDiff:
    """Return the diff from `before` to `after`; a name is None if there is no file on that side."""
    edits = list(compute_edits(split_lines(before), split_lines(after)))
    header = f"--- {format_name('a', old_name)}\n+++ {format_name('b', new_name)}\n"
    hunks = "".join(hunk for hunk in format_hunks(edits))
    signs = [sign for sign, _ in edits]
    return TextDiff(header + hunks if hunks else "", signs.count("+"), signs.count("-"))


def split_lines(text: str) -> list[str]:
    r"""Split a text at `\n` only, keeping the line endings."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def format_name(side: str, name: str | None) -> str:
    """Return a name for the diff header, quoted if needed to stay on one line."""
    if name is None:
        return "/dev/null"
    path = f"{side}{name}"
    return path if path.isprintable() and '"' not in path else '"' + repr(path)[1:-1].replace('"', '\\"') + '"'


def compute_edits(before: Sequence[str], after: Sequence[str]) -> Iterator[Edit]:
    """Yield the edits that turn one list of lines into another."""
    start = count_common(before, after)
    rest = min(len(before), len(after)) - start
    end = count_common(before[::-1][:rest], after[::-1][:rest])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    yield from ((" ", line) for line in before[:start])
    done_old = done_new = 0
    for at_old, at_new in [*find_matches(old, new), (len(old), len(new))]:
        yield from (("-", line) for line in old[done_old:at_old])
        yield from (("+", line) for line in new[done_new:at_new])
        if at_old < len(old):
            yield " ", old[at_old]
        done_old, done_new = at_old + 1, at_new + 1
    yield from ((" ", line) for line in before[len(before) - end :])


def count_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal lines from the start."""
    return next(
        (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def find_matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of unchanged lines in order; empty if the search takes too long."""
    if not old or not new:
        return []
    numbers: dict[str, int] = {}
    a, b = ([numbers.setdefault(line, len(numbers)) for line in side] for side in (old, new))
    trail: list[dict[int, int]] = []
    reach = {1: 0}
    steps = 0
    for depth in range(len(a) + len(b) + 1):
        trail.append(dict(reach))
        for diagonal in range(-depth, depth + 1, 2):
            x = start = furthest_x(reach, diagonal, depth)
            while x < len(a) and x - diagonal < len(b) and a[x] == b[x - diagonal]:
                x += 1
            reach[diagonal] = x
            steps += 1 + x - start
            if x >= len(a) and x - diagonal >= len(b):
                return backtrack(trail, len(a), len(b))
        if steps + len(reach) * depth // 4 > MAX_STEPS:
            break
    return []


def furthest_x(reach: dict[int, int], diagonal: int, depth: int) -> int:
    """Return how far one more edit reaches on a diagonal: down from above, or right from below."""
    goes_down = diagonal == -depth or (diagonal != depth and reach[diagonal - 1] < reach[diagonal + 1])
    return reach[diagonal + 1] if goes_down else reach[diagonal - 1] + 1


def backtrack(trail: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Return the unchanged lines on the path that was found, in order."""
    found: list[tuple[int, int]] = []
    for depth in range(len(trail) - 1, -1, -1):
        reach, diagonal = trail[depth], x - y
        goes_down = diagonal == -depth or (diagonal != depth and reach[diagonal - 1] < reach[diagonal + 1])
        above = diagonal + 1 if goes_down else diagonal - 1
        begin_x = reach[above] if depth else 0
        first = (begin_x if goes_down else begin_x + 1) if depth else 0
        while x > first:
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = (begin_x, begin_x - above) if depth else (0, 0)
    return found[::-1]


def format_hunks(edits: Sequence[Edit]) -> Iterator[str]:
    """Yield the hunks: the edits with context lines and a header."""
    near = [False] * len(edits)
    for number, (sign, _) in enumerate(edits):
        if sign != " ":
            near[max(0, number - CONTEXT) : number + CONTEXT + 1] = [True] * len(
                near[max(0, number - CONTEXT) : number + CONTEXT + 1]
            )
    old = new = 0
    for is_shown, group in groupby(zip(near, edits, strict=True), key=lambda each: each[0]):
        lines = [edit for _, edit in group]
        olds, news = (sum(sign in kinds for sign, _ in lines) for kinds in (" -", " +"))
        if is_shown:
            yield f"@@ -{format_range(old, olds)} +{format_range(new, news)} @@\n" + "".join(map(format_line, lines))
        old, new = old + olds, new + news


def format_range(begin: int, length: int) -> str:
    """Return a range in unified diff format."""
    first = begin + 1 if length else begin
    return f"{first}" if length == 1 else f"{first},{length}"


def format_line(edit: Edit) -> str:
    """Return a line of a hunk."""
    sign, line = edit
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n{NO_NEWLINE}"


MAX_TEXT = 256 * 1024
MAX_DIFF = 64 * 1024
MAX_DIFFS = 512 * 1024
"""Characters of all diffs of a run."""
MAX_LISTED = 1000
ABSENT = b""

Text = bytes | DiffOmission
"""Content of a possible text file, or the reason why it is omitted."""


class SnapshotComparison:
    """Comparison that collects the entries of a walk and returns the changes."""

    def __init__(self, contents: Path, before: SnapshotManifest) -> None:
        self._contents = contents
        self._before = before
        self._missing = {path for path, (entry, _) in before.entries.items() if not entry.is_folder}
        self._by_inode = {before.entries[path][0].inode: path for path in self._missing}
        self._changes: list[FileChange] = []
        self._moved: list[tuple[str, FileChange]] = []
        self._remaining = MAX_DIFFS

    def add(self, found: TreeEntry) -> None:
        """Compare an entry with the snapshot."""
        if found.stat.is_folder or found.name.startswith((TEMPORARY_PREFIX, UPLOAD_PREFIX)):
            return
        if found.path not in self._missing:
            self._add_new(found)
            return
        self._missing.discard(found.path)
        if self._is_changed(found):
            self._changes.append(self._change(found.path, found))

    def result(self) -> WorkspaceChanges:
        """Return the changes after the walk."""
        for source, change in self._moved:
            if source in self._missing:
                self._missing.discard(source)
                self._changes.append(make_rename(source, change, self._before.entries[source][0]))
            else:
                self._changes.append(change)
        self._changes += [self._change(path, None) for path in self._missing]
        return WorkspaceChanges.from_files(self._changes, MAX_LISTED)

    def _add_new(self, found: TreeEntry) -> None:
        source = self._by_inode.get(found.stat.inode)
        change = self._change(found.path, found)
        if source is not None and is_moved(self._before.entries[source][0], found.stat):
            self._moved.append((source, change))
        else:
            self._changes.append(change)

    def _is_changed(self, found: TreeEntry) -> bool:
        """Return True if a file differs; a file that was only touched does not."""
        entry, content = self._before.entries[found.path]
        if self._before.is_untouched(found.path, found.stat):
            return False
        if not (entry.is_file and found.stat.is_file and entry.size == found.stat.size) or content is None:
            return not entry.is_same(found.stat)
        return content != NO_CONTENT and not has_content(found, self._contents / content)

    def _change(self, path: str, found: TreeEntry | None) -> FileChange:
        """Return the change at a path."""
        before = self._before.entries[path][0] if path in self._before.entries else None
        before = None if before is None or before.is_folder else before
        now = found.stat if found else None
        is_link = any(entry is not None and entry.is_link for entry in (before, now))
        change = FileChange(
            to_agent_path(path), get_status(before, now), get_size(before), get_size(now), is_link=is_link
        )
        old = ABSENT if before is None else self._old_text(path)
        return self._with_diff(change, old, ABSENT if found is None else read_new_text(found))

    def _with_diff(self, change: FileChange, old: Text, new: Text) -> FileChange:
        for side in (old, new):
            if isinstance(side, str):
                return replace(change, left_out=side)
        assert isinstance(old, bytes) and isinstance(new, bytes)
        before, after = decode_text(old), decode_text(new)
        if before is None or after is None:
            return replace(change, left_out="binary")
        if len(self._changes) >= MAX_LISTED:  # it would not be listed
            return replace(change, left_out="too large")
        names = (None if change.status == "added" else change.path, None if change.status == "removed" else change.path)
        made = diff_texts(before, after, *names)
        counted = replace(change, lines_added=made.lines_added, lines_removed=made.lines_removed)
        if len(made.diff) > min(MAX_DIFF, self._remaining):
            return replace(counted, left_out="too large")
        self._remaining -= len(made.diff)
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
            return (self._contents / content).read_bytes() if content != NO_CONTENT else b""
        except OSError:
            return "no copy"


def read_new_text(found: TreeEntry) -> Text:
    """Return the content of a file during the walk."""
    if found.stat.is_link:
        return os.fsencode(found.stat.target)
    if not found.stat.is_file:
        return "binary"
    if found.links > 1:  # one of its links may be outside
        return "several names"
    if found.stat.size > MAX_TEXT:
        return "too large"
    try:
        descriptor = os.open(found.name, READ_FLAGS | O_NOFOLLOW | O_CLOEXEC, dir_fd=found.folder)
        with os.fdopen(descriptor, "rb") as file:
            is_it = os.fstat(descriptor).st_ino == found.stat.inode
            return file.read(MAX_TEXT) if is_it else "no copy"
    except OSError:
        return "no copy"


def decode_text(content: bytes) -> str | None:
    """Return the text of a content, or None if it is binary."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def is_moved(before: FileStat, now: FileStat) -> bool:
    """Return True if two stats are of the same file: a rename changes only the name and the ctime."""
    return now.is_file and (before.size, before.mtime_ns, before.mode) == (now.size, now.mtime_ns, now.mode)


def make_rename(source: str, change: FileChange, before: FileStat) -> FileChange:
    """Return the change of a file that was renamed."""
    return FileChange(change.path, "renamed", before.size, change.size, previous_path=to_agent_path(source))


def get_status(before: FileStat | None, now: FileStat | None) -> ChangeStatus:
    """Return the status of a change."""
    if now is None:
        return "removed"
    return "added" if before is None else "changed"


def get_size(entry: FileStat | None) -> int | None:
    """Return the size of a file; links and other file types have none."""
    return entry.size if entry is not None and entry.is_file else None


def to_agent_path(path: str) -> str:
    """Return the path as the agent sees it; bytes that are not UTF-8 are escaped."""
    return os.fsencode(f"{USER_DATA}/{path}").decode(errors="backslashreplace")
