"""Unified diffs with bounded cost, because the texts come from agents and may be malicious.

The shortest edit script (Myers, 1986) is searched for a limited number of steps; after that, everything between the
common prefix and the common suffix counts as replaced.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

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
