"""Unified diffs of two texts, at a cost that is known beforehand: texts are written by agents, who may mean harm.

The shortest list of edits is looked for (Myers, 1986) for a number of steps; where that is not enough, everything
between the common beginning and the common end counts as replaced.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

MAX_STEPS = 100_000
CONTEXT = 3
NO_NEWLINE = "\\ No newline at end of file\n"

Edit = tuple[str, str]
"""` `, `-` or `+`, and a line with its end."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a text became another."""

    diff: str
    lines_added: int
    lines_removed: int


def compare(before: str, after: str, old_name: str | None, new_name: str | None) -> Difference:
    """How `before` became `after`; a name is None where there was, or is, no file."""
    edits = list(edits_between(lines_of(before), lines_of(after)))
    header = f"--- {shown('a', old_name)}\n+++ {shown('b', new_name)}\n"
    hunks = "".join(hunk for hunk in hunks_of(edits))
    signs = [sign for sign, _ in edits]
    return Difference(header + hunks if hunks else "", signs.count("+"), signs.count("-"))


def lines_of(text: str) -> list[str]:
    """The lines with their ends; other characters that break lines for some are part of them."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def shown(side: str, name: str | None) -> str:
    """A name in the header of a diff, on one line whatever is in it."""
    if name is None:
        return "/dev/null"
    path = f"{side}{name}"
    return path if path.isprintable() and '"' not in path else '"' + repr(path)[1:-1].replace('"', '\\"') + '"'


def edits_between(before: Sequence[str], after: Sequence[str]) -> Iterator[Edit]:
    """The edits that make one list of lines of another."""
    start = common_length(before, after)
    rest = min(len(before), len(after)) - start
    end = common_length(before[::-1][:rest], after[::-1][:rest])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    yield from ((" ", line) for line in before[:start])
    done_old = done_new = 0
    for at_old, at_new in [*matches(old, new), (len(old), len(new))]:
        yield from (("-", line) for line in old[done_old:at_old])
        yield from (("+", line) for line in new[done_new:at_new])
        if at_old < len(old):
            yield " ", old[at_old]
        done_old, done_new = at_old + 1, at_new + 1
    yield from ((" ", line) for line in before[len(before) - end :])


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are the same from the beginning."""
    return next(
        (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Places of lines that stay, in order; none when finding them would take too long."""
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
            x = start = first_place(reach, diagonal, depth)
            while x < len(a) and x - diagonal < len(b) and a[x] == b[x - diagonal]:
                x += 1
            reach[diagonal] = x
            steps += 1 + x - start
            if x >= len(a) and x - diagonal >= len(b):
                return walk_back(trail, len(a), len(b))
        if steps + len(reach) * depth // 4 > MAX_STEPS:
            break
    return []


def first_place(reach: dict[int, int], diagonal: int, depth: int) -> int:
    """How far one more edit leads on a diagonal: down from the one above, or right from the one below."""
    goes_down = diagonal == -depth or (diagonal != depth and reach[diagonal - 1] < reach[diagonal + 1])
    return reach[diagonal + 1] if goes_down else reach[diagonal - 1] + 1


def walk_back(trail: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """The lines that stay on the way that was found, from its end to its beginning and then in order."""
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


def hunks_of(edits: Sequence[Edit]) -> Iterator[str]:
    """The edits with a few lines around them, each group with its place."""
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
            yield f"@@ -{span(old, olds)} +{span(new, news)} @@\n" + "".join(map(shown_line, lines))
        old, new = old + olds, new + news


def span(begin: int, length: int) -> str:
    """Where a hunk is, as unified diffs say it."""
    first = begin + 1 if length else begin
    return f"{first}" if length == 1 else f"{first},{length}"


def shown_line(edit: Edit) -> str:
    """A line of a hunk."""
    sign, line = edit
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n{NO_NEWLINE}"
