"""The table of the benchmarks: its rows, its file format and the comparison with the checked-in one.

Ratios may be 10 % worse than in the baseline. Counts must be equal, or within their own tolerance. Figures such as
seconds depend on the machine and are not compared.
"""

import os
import platform
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["ratio", "count", "figure"]
Better = Literal["lower", "higher"]
TABLE_VARIABLE = "BENCH_TABLE"
"""Environment variable with the path of the table that a benchmark writes."""
RATIO_TOLERANCE = 0.1
COLUMNS = ("benchmark", "row", "kind", "value", "unit", "better", "bar", "tolerance")
WIDTHS = (14, 62, 6, 9, 4, 6, 7, 9)
"""Least widths of the columns. They are fixed, so that a change of one row is a change of one line."""
MADE_WITH = "Measured with "
HEADER = """# Benchmarks

Written by `make bench`, sorted, one row per line. CONTRIBUTING.md says how to read and to accept it.
"""


class TableError(Exception):
    """A file that is not a table of benchmarks, or rows that cannot be written to one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One result of a benchmark."""

    name: str
    kind: Kind
    value: float
    unit: str = ""
    better: Better = "lower"
    bar: float | None = None
    """Limit that the benchmark itself checks."""
    tolerance: float = 0.0
    """Share by which a count may differ from the baseline in either direction."""
    benchmark: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Name of the row in the whole table."""
        return self.benchmark, self.name


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of benchmarks, and the interpreter they were measured with."""

    rows: tuple[Row, ...] = ()
    made_with: str = field(default_factory=lambda: describe_interpreter())

    def of(self, benchmarks: Collection[str]) -> "Table":
        """Return the rows of some benchmarks."""
        return replace(self, rows=tuple(row for row in self.rows if row.benchmark in benchmarks))

    def update(self, newer: "Table") -> "Table":
        """Return this table with all rows of the benchmarks of `newer` replaced by those.

        Raises:
            TableError: The tables were measured with different interpreters.
        """
        names = {row.benchmark for row in newer.rows}
        kept = tuple(row for row in self.rows if row.benchmark not in names)
        if kept and self.made_with != newer.made_with:
            raise TableError(f"the baseline was measured with {self.made_with}: accept all benchmarks, not some")
        return Table((*kept, *newer.rows), newer.made_with)


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference between a row and its baseline."""

    row: Row
    verdict: Literal["worse", "changed", "new", "missing", "better", "not compared"]
    text: str

    @property
    def is_failure(self) -> bool:
        """Return whether the difference must be mended or accepted."""
        return self.verdict not in ("better", "not compared")


def describe_interpreter() -> str:
    """Return the interpreter in the form of the table: allocations depend on it."""
    return f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"


def record(rows: Sequence[Row]) -> None:
    """Write the rows of this benchmark for `make bench`. Called once, when all of them are known."""
    if path := os.environ.get(TABLE_VARIABLE):
        name = Path(sys.argv[0]).stem
        Path(path).write_text(format_table(Table(tuple(replace(row, benchmark=name) for row in rows))))


def format_table(table: Table) -> str:
    """Return the text of a table.

    Raises:
        TableError: Two rows have the same name, or a name cannot be written in a table.
    """
    rows = sorted(table.rows, key=lambda row: row.key)
    keys = [row.key for row in rows]
    for row in rows:
        if keys.count(row.key) > 1:
            raise TableError(f"two rows of {row.benchmark!r} have the name {row.name!r}")
        if "|" in f"{row.name}{row.unit}" or row.name != " ".join(row.name.split()):
            raise TableError(f"not a name of a row: {row.name!r}")
    lines = [COLUMNS, tuple("-" * width for width in WIDTHS), *(format_cells(row) for row in rows)]
    return f"{HEADER}\n{MADE_WITH}{table.made_with}.\n\n" + "".join(f"{format_line(line)}\n" for line in lines)


def format_cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row."""
    tolerance = {"ratio": f"{RATIO_TOLERANCE:.0%}", "figure": "", "count": "exact"}[row.kind]
    if row.kind == "count" and row.tolerance:
        tolerance = f"{row.tolerance:.1%}"
    bar = "" if row.bar is None else f"{row.bar:.4g}"
    return row.benchmark, row.name, row.kind, format_value(row), row.unit, row.better, bar, tolerance


def format_value(row: Row) -> str:
    """Return a value; counts are written in full."""
    return f"{row.value:.10g}" if row.kind == "count" else f"{row.value:.4g}"


def format_line(cells: Iterable[str]) -> str:
    """Return one line of the table."""
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)) + " |"


def read_table(path: Path) -> Table:
    """Read a table from a file.

    Raises:
        TableError: The file is missing or is not a table.
    """
    try:
        return parse_table(path.read_text())
    except (OSError, UnicodeDecodeError) as problem:
        raise TableError(f"{path} cannot be read: {problem}") from problem
    except TableError as problem:
        raise TableError(f"{path}: {problem}") from problem


def parse_table(text: str) -> Table:
    """Return the table in a text.

    Raises:
        TableError: It is not a table; the message names the line.
    """
    made_with = [line.removeprefix(MADE_WITH)[:-1] for line in text.splitlines() if line.startswith(MADE_WITH)]
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.startswith("|")]
    if len(made_with) != 1 or len(lines) < 2:
        raise TableError(f"not a table of benchmarks: {text[:60]!r}")
    (number, head), _, *body = lines
    if split_line(head) != list(COLUMNS):
        raise TableError(f"line {number}: the columns are not {', '.join(COLUMNS)}")
    rows: dict[tuple[str, str], Row] = {}
    for number, line in body:
        row = parse_row(number, split_line(line))
        if row.key in rows:
            raise TableError(f"line {number}: a second row of {row.benchmark!r} with the name {row.name!r}")
        rows[row.key] = row
    return Table(tuple(rows.values()), made_with[0])


def split_line(line: str) -> list[str]:
    """Return the cells of a line."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def parse_row(number: int, cells: list[str]) -> Row:
    """Return the row in a line."""
    if len(cells) != len(COLUMNS):
        raise TableError(f"line {number}: {len(cells)} columns instead of {len(COLUMNS)}")
    benchmark, name, kind, value, unit, better, bar, tolerance = cells
    if kind not in get_args(Kind) or better not in get_args(Better):
        raise TableError(f"line {number}: unknown kind {kind!r} or direction {better!r}")
    try:
        share = float(tolerance.removesuffix("%")) / 100 if kind == "count" and tolerance != "exact" else 0.0
        limit = float(bar) if bar else None
        return Row(name, kind, float(value), unit, better, limit, share, benchmark)  # type: ignore[arg-type]
    except ValueError as problem:
        raise TableError(f"line {number}: {problem}") from problem


def compare(baseline: Table, results: Table, benchmarks: Collection[str]) -> list[Finding]:
    """Return how the results of some benchmarks differ from the baseline."""
    known = {row.key: row for row in baseline.of(benchmarks).rows}
    found = {row.key: row for row in results.of(benchmarks).rows}
    is_same_interpreter = baseline.made_with == results.made_with
    findings = [
        Finding(row, "missing", "is in the baseline, but was not measured")
        for key, row in known.items()
        if key not in found
    ]
    for key, row in found.items():
        if key not in known:
            findings.append(Finding(row, "new", f"{format_value(row)} is not in the baseline"))
        elif row.tolerance and not is_same_interpreter:
            findings.append(Finding(row, "not compared", f"the baseline was measured with {baseline.made_with}"))
        elif difference := compare_row(known[key], row):
            findings.append(difference)
    return sorted(findings, key=lambda finding: finding.row.key)


def compare_row(before: Row, now: Row) -> Finding | None:
    """Return the difference between a row and its baseline, if there is one that counts."""
    if now.kind != before.kind or now.better != before.better:
        return Finding(now, "changed", f"was a {before.kind}, {before.better} is better")
    text = f"{format_value(before)} → {format_value(now)} {now.unit}".rstrip()
    difference = now.value - before.value
    if now.kind == "count":
        # The values of the table are what is compared: a file holds no more digits.
        limit = max(abs(before.value) * now.tolerance, 1e-9)
        return Finding(now, "changed", text) if abs(difference) > limit else None
    if now.kind == "figure":
        return None
    change = f"{text} ({difference / before.value:+.0%})" if before.value else text
    loss = difference if now.better == "lower" else -difference
    if abs(loss) <= abs(before.value) * RATIO_TOLERANCE + 1e-9:
        return None
    return Finding(now, "worse" if loss > 0 else "better", change)


def pick_best(tables: Sequence[Table]) -> Table:
    """Return the first table with the best value of each ratio: what is slow by chance is not slow every time."""
    first, *others = tables
    best = []
    for row in first.rows:
        values = [each.value for table in others for each in table.rows if each.key == row.key]
        choose = min if row.better == "lower" else max
        best.append(replace(row, value=choose(row.value, *values)) if row.kind == "ratio" and values else row)
    return replace(first, rows=tuple(best))
