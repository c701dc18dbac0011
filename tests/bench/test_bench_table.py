"""Comparison of benchmarks with the checked-in table, and its file."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench._table import (
    TABLE_VARIABLE,
    Finding,
    Row,
    Table,
    TableError,
    compare,
    format_table,
    parse_table,
    pick_best,
    read_table,
    record,
)

RATIO = Row("CPU per run", "ratio", 0.8, "×", bar=1.0, benchmark="one")
RATE = Row("hit rate", "ratio", 0.9, better="higher", benchmark="one")
COUNT = Row("hops to threads", "count", 26, benchmark="one")
ALLOCATIONS = Row("allocations", "count", 100_000, tolerance=0.02, benchmark="one")
SECONDS = Row("start", "figure", 1.5, "s", bar=3.0, benchmark="two")
BASELINE = Table((RATIO, RATE, COUNT, ALLOCATIONS, SECONDS))


def compare_with(*rows: Row, benchmarks: tuple[str, ...] = ("one",), made_with: str | None = None) -> list[Finding]:
    """Compare the baseline with itself, but for some rows."""
    names = {row.key for row in rows}
    kept = [row for row in BASELINE.rows if row.key not in names]
    return compare(BASELINE, Table((*kept, *rows), made_with or BASELINE.made_with), benchmarks)


@pytest.mark.parametrize("worse", [replace(RATIO, value=0.89), replace(RATE, value=0.8)])
def test_a_ratio_that_is_more_than_a_tenth_worse_fails(worse: Row) -> None:
    (finding,) = compare_with(worse)
    assert (finding.row, finding.verdict, finding.is_failure) == (worse, "worse", True)
    assert "→" in finding.text and finding.text.endswith("%)")


@pytest.mark.parametrize("row", [replace(RATIO, value=0.87), replace(RATE, value=0.82)])
def test_a_ratio_that_is_less_than_a_tenth_worse_passes(row: Row) -> None:
    assert compare_with(row) == []


@pytest.mark.parametrize("row", [replace(RATIO, value=0.5), replace(RATE, value=1.0)])
def test_a_better_ratio_is_reported_and_passes(row: Row) -> None:
    (finding,) = compare_with(row)
    assert (finding.verdict, finding.is_failure) == ("better", False)


@pytest.mark.parametrize("value", [25, 27, 26.1])
def test_a_changed_count_fails_whether_it_is_lower_or_higher(value: float) -> None:
    (finding,) = compare_with(replace(COUNT, value=value))
    assert (finding.verdict, finding.is_failure) == ("changed", True)
    assert finding.text == f"26 → {value:g}"


@pytest.mark.parametrize(("value", "fails"), [(101_900, False), (98_100, False), (102_100, True), (97_900, True)])
def test_a_count_with_a_tolerance_may_differ_by_that(value: float, fails: bool) -> None:
    assert [finding.verdict for finding in compare_with(replace(ALLOCATIONS, value=value))] == ["changed"] * fails


def test_a_count_with_a_tolerance_is_not_compared_with_that_of_another_interpreter() -> None:
    (finding,) = compare_with(replace(ALLOCATIONS, value=1), made_with="CPython 3.99")
    assert finding.row.name == "allocations" and not finding.is_failure
    assert BASELINE.made_with in finding.text


def test_a_figure_is_not_compared() -> None:
    assert compare_with(replace(SECONDS, value=99), benchmarks=("one", "two")) == []


def test_a_row_that_is_not_in_the_baseline_fails() -> None:
    (finding,) = compare_with(Row("new one", "figure", 3, benchmark="one"))
    assert (finding.verdict, finding.is_failure) == ("new", True)


def test_a_row_that_was_not_measured_fails_if_its_benchmark_was_chosen() -> None:
    (finding,) = compare(BASELINE, Table((RATIO, RATE, ALLOCATIONS)), ["one"])
    assert (finding.row, finding.verdict, finding.is_failure) == (COUNT, "missing", True)


def test_a_row_that_becomes_another_kind_fails() -> None:
    (finding,) = compare_with(replace(RATIO, kind="figure"))
    assert (finding.verdict, finding.text) == ("changed", "was a ratio, lower is better")


def test_a_baseline_of_zero_is_compared() -> None:
    zero = Table((Row("lost", "ratio", 0, benchmark="one"),))
    worse = Table((Row("lost", "ratio", 1, benchmark="one"),))
    assert [finding.verdict for finding in compare(zero, worse, ["one"])] == ["worse"]
    assert compare(zero, zero, ["one"]) == []


def test_of_several_attempts_the_best_ratio_counts_and_the_first_of_all_else() -> None:
    again = Table((replace(RATIO, value=0.7), replace(RATE, value=0.95), replace(COUNT, value=1)))
    best = {row.name: row.value for row in pick_best([BASELINE, again]).rows}
    assert best == {"CPU per run": 0.7, "hit rate": 0.95, "hops to threads": 26, "allocations": 100_000, "start": 1.5}


def test_a_table_is_read_as_it_was_written_one_row_per_line() -> None:
    text = format_table(BASELINE)
    read = parse_table(text)
    assert sorted(read.rows, key=lambda row: row.key) == sorted(BASELINE.rows, key=lambda row: row.key)
    assert read.made_with == BASELINE.made_with
    changed = format_table(replace(BASELINE, rows=(*BASELINE.rows[1:], replace(RATIO, value=0.123456))))
    assert len(set(changed.splitlines()) - set(text.splitlines())) == 1


def test_accepted_rows_replace_those_of_their_benchmark_only() -> None:
    accepted = BASELINE.update(Table((replace(RATIO, value=0.5),)))
    assert set(accepted.rows) == {replace(RATIO, value=0.5), SECONDS}


def test_a_part_is_not_accepted_into_a_baseline_of_another_interpreter() -> None:
    with pytest.raises(TableError, match="accept all benchmarks"):
        BASELINE.update(Table((RATIO,), "CPython 3.99"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "", "not a table of benchmarks"),
        (lambda text: text.replace("Measured with ", "Made with "), "not a table of benchmarks"),
        (lambda text: text.replace("| tolerance |", "| margin    |"), "line 7: the columns are not"),
        (lambda text: text.replace("| figure ", "| guess  "), "line 13: unknown kind 'guess'"),
        (lambda text: text.replace("| 26  ", "| many"), "line 12: could not convert string to float: 'many'"),
        (lambda text: text + "<<<<<<< HEAD\n| one | two |\n", "line 15: 2 columns instead of 8"),
        (lambda text: text + text.splitlines()[-1] + "\n", "line 14: a second row of 'two' with the name 'start'"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(damage: object, message: str, tmp_path: Path) -> None:
    file = tmp_path / "baseline.md"
    file.write_text(damage(format_table(BASELINE)))  # type: ignore[operator]
    with pytest.raises(TableError, match=f"^{file}: {message}"):
        read_table(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="nothing.md cannot be read"):
        read_table(tmp_path / "nothing.md")


@pytest.mark.parametrize("name", ["a | b", "two\nlines", " space"])
def test_a_name_that_would_break_the_table_is_refused(name: str) -> None:
    with pytest.raises(TableError, match="not a name of a row"):
        format_table(Table((replace(RATIO, name=name),)))


def test_two_rows_of_the_same_name_are_refused() -> None:
    with pytest.raises(TableError, match="two rows of 'one' have the name 'CPU per run'"):
        format_table(Table((RATIO, replace(RATIO, value=1))))


def test_a_benchmark_writes_its_rows_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "table.md"
    monkeypatch.setattr("sys.argv", ["bench/startup.py"])
    monkeypatch.delenv(TABLE_VARIABLE, raising=False)
    record([replace(RATIO, benchmark="")])
    assert not file.exists()
    monkeypatch.setenv(TABLE_VARIABLE, str(file))
    record([replace(RATIO, benchmark="")])
    assert read_table(file).rows == (replace(RATIO, benchmark="startup"),)
