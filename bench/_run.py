"""`make bench`: runs the benchmarks, writes their table and compares it with the checked-in one.

python bench/_run.py [--accept] [NAME …]

Each benchmark keeps its own bars and runs in a process of its own, which writes its rows with `record`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _table import TABLE_VARIABLE, Finding, Table, TableError, compare, format_table, pick_best, read_table

FOLDER = Path(__file__).parent
BASELINE = FOLDER / "baseline.md"
RESULTS = FOLDER / "results.md"
ATTEMPTS = 3
"""Attempts of a benchmark with a ratio that is worse than in the baseline."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a benchmark; without a table if it did not come to its end."""

    name: str
    table: Table | None
    exit_code: int
    seconds: float


def main() -> int:
    """Run the chosen benchmarks; 1 when one failed, missed a bar or differs from the baseline."""
    parser = argparse.ArgumentParser(prog="bench/_run.py", description=__doc__)
    parser.add_argument("names", nargs="*", help="benchmarks, all of them by default")
    parser.add_argument("--accept", action="store_true", help="write the baseline anew")
    options = parser.parse_args()
    try:
        return guard(choose(options.names), is_partial=bool(options.names), is_accepted=options.accept)
    except TableError as problem:
        sys.exit(str(problem))


def guard(names: Sequence[str], *, is_partial: bool, is_accepted: bool) -> int:
    """Run benchmarks and compare their table with the baseline, or make it the baseline."""
    baseline = read_table(BASELINE) if BASELINE.exists() else Table()
    # A baseline that is accepted comes from one run of each benchmark, not from the best of several.
    outcomes = [run(name, Table() if is_accepted else baseline) for name in names]
    if not is_partial:  # rows of benchmarks that no longer exist are compared, and dropped when the table is accepted
        names = sorted({*names, *(row.benchmark for row in baseline.rows)})
    results = Table(tuple(row for each in outcomes if each.table for row in each.table.rows))
    RESULTS.write_text(format_table(results))
    print_times(outcomes)
    is_different = False
    if is_accepted:
        broken = {each.name for each in outcomes if each.table is None}
        kept = baseline.of({row.benchmark for row in baseline.rows} - set(names) | broken)
        BASELINE.write_text(format_table(kept.update(results)))
        print(f"wrote {BASELINE.relative_to(FOLDER.parent)}; look at it with `git diff` before you commit it")
    else:
        is_different = report(compare(baseline, results, names), names if is_partial else ())
    return int(is_different or any(each.exit_code for each in outcomes))


def choose(words: Sequence[str]) -> list[str]:
    """Return the names of benchmarks in words that may be lists with commas; all benchmarks if there are none."""
    names = [name for word in words for name in word.split(",") if name]
    known = sorted(file.stem for file in FOLDER.glob("[a-z]*.py"))
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}")
    return [name for name in known if name in names] if names else known


def run(name: str, baseline: Table) -> Outcome:
    """Run a benchmark, and again if it is worse than in the baseline: other work on the machine makes it so at times.

    A missed bar is final.
    """
    print(f"== {name}", flush=True)
    began = time.monotonic()
    outcome = run_once(name)
    tables = [outcome.table] if outcome.table else []
    while outcome.exit_code == 0 and 0 < len(tables) < ATTEMPTS and is_worse(baseline, pick_best(tables), name):
        print(f"== {name} again: worse than in the baseline, perhaps by chance", flush=True)
        if (again := run_once(name)).table is None:
            break
        tables.append(again.table)
    return Outcome(name, pick_best(tables) if tables else None, outcome.exit_code, time.monotonic() - began)


def run_once(name: str) -> Outcome:
    """Run a benchmark in a process of its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "table.md"
        command = [sys.executable, str(FOLDER / f"{name}.py")]
        ended = subprocess.run(command, env={**os.environ, TABLE_VARIABLE: str(file)}, check=False)
        table = read_table(file) if file.exists() else None
    return Outcome(name, table, ended.returncode or int(table is None), time.monotonic() - began)


def is_worse(baseline: Table, table: Table, name: str) -> bool:
    """Return whether a ratio is worse than in the baseline."""
    return any(finding.verdict == "worse" for finding in compare(baseline, table, [name]))


def print_times(outcomes: Sequence[Outcome]) -> None:
    """Print how long each benchmark took, and how it ended."""
    print(f"\n== {sum(each.seconds for each in outcomes):.0f} s in all")
    for each in outcomes:
        problem = "did not come to its end" if each.table is None else "missed a bar" if each.exit_code else ""
        print(f"{each.name:20} {each.seconds:6.0f} s  {problem}".rstrip())


def report(findings: Sequence[Finding], chosen: Sequence[str]) -> bool:
    """Print the differences; return whether one of them is a failure."""
    for finding in findings:
        print(f"{finding.verdict:12} {finding.row.benchmark}: {finding.row.name}: {finding.text}")
    failures = sum(finding.is_failure for finding in findings)
    if failures:
        only = f" ONLY={','.join(chosen)}" if chosen else ""
        print(
            f"{failures} rows differ from {BASELINE.relative_to(FOLDER.parent)}. If that is intended, accept it with "
            f"`make bench ACCEPT=1{only}` and commit the file."
        )
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
