"""Unified diffs: correct and with bounded cost."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from deerflow.sandbox.snapshots.comparison import diff_texts

LINES = some.lists(some.sampled_from(["a\n", "b\n", "c\n", "\n", "d\r\n", "x y\n", "\u2028\n"]), max_size=30)
TEXTS = some.builds(lambda lines, rest: "".join(lines) + rest, LINES, some.sampled_from(["", "end", "\r", "\x0c"]))


def apply(diff: str, before: str) -> str:
    """Apply a unified diff to a text."""
    old = re.split(r"(?<=\n)", before)
    old = old[:-1] if old[-1] == "" else old
    result: list[str] = []
    done = 0
    lines = re.split(r"(?<=\n)", diff)[2:-1]
    number = 0
    while number < len(lines):
        at, length = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@\n", lines[number]).groups()  # type: ignore[union-attr]
        begin = int(at) - (length != "0")
        result += old[done:begin]
        done = begin
        number += 1
        while number < len(lines) and not lines[number].startswith("@@"):
            sign, line = lines[number][0], lines[number][1:]
            if number + 1 < len(lines) and lines[number + 1].startswith("\\"):
                line = line[:-1]
                number += 1
            if sign != "+":
                assert old[done] == line
                done += 1
            if sign != "-":
                result.append(line)
            number += 1
    return "".join(result + old[done:])


@given(TEXTS, TEXTS)
@settings(max_examples=500, deadline=None)
@example("", "")
@example("a", "a\n")
@example("a\n" * 10, "a\n" * 5 + "b\n" + "a\n" * 5)
def test_applying_the_diff_gives_the_new_text(before: str, after: str) -> None:
    made = diff_texts(before, after, "/f", "/f")
    assert (made.diff == "") is (before == after)
    assert apply(made.diff, before) == after if made.diff else before == after
    signs = [line[0] for line in re.split(r"(?<=\n)", made.diff)[2:-1]]
    assert (made.lines_added, made.lines_removed) == (signs.count("+"), signs.count("-"))


@given(TEXTS, TEXTS)
@settings(max_examples=100, deadline=None)
def test_returns_a_shortest_diff(before: str, after: str) -> None:
    made = diff_texts(before, after, "/f", "/f")
    old, new = before.split("\n"), after.split("\n")
    longest = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, one in enumerate(old):
        for j, other in enumerate(new):
            longest[i + 1][j + 1] = longest[i][j] + 1 if one == other else max(longest[i][j + 1], longest[i + 1][j])
    # Whether the last line has an end is part of it here, and not there.
    assert made.lines_added + made.lines_removed <= len(old) + len(new) - 2 * longest[-1][-1] + 2


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
def test_patch_accepts_the_diff(tmp_path: Path) -> None:
    before, after = "one\ntwo\nthree\n" * 20, "one\nTWO\nthree\n" + "one\ntwo\nthree\n" * 18 + "end"
    (tmp_path / "f").write_text(before)
    diff = diff_texts(before, after, "/f", "/f").diff
    subprocess.run(["patch", "-p1", "--batch"], cwd=tmp_path, input=diff, text=True, check=True, capture_output=True)
    assert (tmp_path / "f").read_text() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("".join(f"{n}\n" for n in range(40_000)), "".join(f"{n}\n" for n in range(40_000, 80_000))),
        ("a\nb\n" * 60_000, "b\nb\na\n" * 40_000),
        ("a\n" * 100_000, "b\n" + "a\n" * 60_000 + "b\n"),
        ("x" * 250_000, "y" * 250_000),
        ("".join(f"{n % 7}\n" for n in range(100_000)), "".join(f"{n % 11}\n" for n in range(100_000))),
    ],
)
@pytest.mark.timeout(60)  # looked for to the end, the shortest diff takes hours
def test_bounds_the_time_for_hard_texts(before: str, after: str) -> None:
    assert apply(diff_texts(before, after, "/f", "/f").diff, before) == after


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/a b", "a/a b"),
        ("/new\nline", r'"a/new\nline"'),
        ('/"quoted"', r'"a/\"quoted\""'),
        ("/ä", "a/ä"),
        (None, "/dev/null"),
    ],
)
def test_keeps_a_name_on_one_line(name: str | None, shown: str) -> None:
    assert diff_texts("a", "b", name, "/x").diff.startswith(f"--- {shown}\n+++ b/x\n@@ ")
