"""`make bench`, with small benchmarks in place of the real ones."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
BENCHMARK = """
import sys
from pathlib import Path
from _table import Row, record
values = Path(__file__).with_suffix(".txt")
first, *rest = values.read_text().split()
values.write_text(" ".join(rest or [first]))
record([Row("ratio", "ratio", float(first), "×"), Row("hops", "count", {hops})])
sys.exit({code})
"""


class Guard:
    """A folder with benchmarks and the program that runs them."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "bench"
        self.folder.mkdir()
        for name in ("_run.py", "_table.py"):
            shutil.copy(BENCH / name, self.folder)

    def write(self, name: str, *ratios: float, hops: int = 26, code: int = 0) -> None:
        """Write a benchmark that measures these ratios one after the other."""
        (self.folder / f"{name}.py").write_text(BENCHMARK.format(hops=hops, code=code))
        (self.folder / f"{name}.txt").write_text(" ".join(map(str, ratios)))

    def run(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code and the output."""
        command = [sys.executable, str(self.folder / "_run.py"), *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return ended.returncode, ended.stdout + ended.stderr

    def baseline(self) -> str:
        """Return the checked-in table."""
        return (self.folder / "baseline.md").read_text()


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    guard = Guard(tmp_path)
    guard.write("one", 0.8)
    guard.write("two", 0.5)
    code, output = guard.run("--accept")
    assert code == 0, output
    return guard


def test_without_a_baseline_all_rows_are_new_and_the_output_says_how_to_accept_them(tmp_path: Path) -> None:
    guard = Guard(tmp_path)
    guard.write("one", 0.8)
    code, output = guard.run()
    assert code == 1
    assert "new          one: hops: 26 is not in the baseline" in output
    assert "2 rows differ from bench/baseline.md. If that is intended" in output and "make bench ACCEPT=1`" in output


def test_a_changed_count_fails_at_once(guard: Guard) -> None:
    guard.write("one", 0.8, hops=25)
    code, output = guard.run("one")
    assert code == 1 and "changed      one: hops: 26 → 25" in output
    assert "make bench ACCEPT=1 ONLY=one`" in output and "again" not in output


def test_a_ratio_that_stays_worse_fails_after_three_attempts(guard: Guard) -> None:
    guard.write("one", 0.9)
    code, output = guard.run()
    assert code == 1 and "worse        one: ratio: 0.8 → 0.9 × (+12%)" in output
    assert output.count("== one again") == 2


def test_a_ratio_that_was_worse_by_chance_passes(guard: Guard) -> None:
    guard.write("one", 0.9, 0.81)
    code, output = guard.run()
    assert code == 0, output
    assert output.count("== one again") == 1


def test_a_missed_bar_fails_and_the_other_benchmarks_are_run(guard: Guard) -> None:
    guard.write("one", 0.8, code=1)
    code, output = guard.run()
    assert code == 1 and "missed a bar" in output and "== two" in output


def test_a_benchmark_that_breaks_fails_and_keeps_its_baseline(guard: Guard) -> None:
    (guard.folder / "one.py").write_text("raise SystemExit('no server')")
    before = guard.baseline()
    code, output = guard.run()
    assert code == 1 and "did not come to its end" in output and "missing      one: hops" in output
    assert guard.run("--accept")[0] == 1
    assert guard.baseline() == before


def test_a_benchmark_that_was_removed_is_missing_until_the_whole_table_is_accepted(guard: Guard) -> None:
    (guard.folder / "two.py").unlink()
    code, output = guard.run()
    assert code == 1 and "missing      two: hops" in output
    assert guard.run("--accept", "one")[0] == 0 and "two" in guard.baseline()
    assert guard.run("--accept")[0] == 0 and "two" not in guard.baseline()


def test_some_benchmarks_are_accepted_without_the_others(guard: Guard) -> None:
    guard.write("one", 0.9)
    guard.write("two", 0.9)
    code, _ = guard.run("--accept", "two")
    assert code == 0
    assert guard.run("two")[0] == 0 and guard.run("one")[0] == 1


def test_an_unknown_benchmark_is_refused_with_the_known_ones(guard: Guard) -> None:
    code, output = guard.run("one,three")
    assert code == 1 and output == "no such benchmark: three; there are one, two\n"


def test_a_damaged_baseline_is_refused_before_anything_is_run(guard: Guard) -> None:
    (guard.folder / "baseline.md").write_text("<<<<<<< HEAD\n")
    code, output = guard.run()
    assert code == 1 and "baseline.md: not a table of benchmarks" in output and "== one" not in output
