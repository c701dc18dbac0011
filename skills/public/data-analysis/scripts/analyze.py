"""Looks into tables, asks them questions in SQL and sums them up: inspect, query, summarize, check."""

import argparse
import difflib
import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from tables import as_markdown, fail, first_line, open_tables, quoted, write_frame

SHOWN = 50
NUMERIC = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "UINTEGER", "UBIGINT")


def main() -> None:
    """Read the command line and do the one thing it asks."""
    arguments = command_line().parse_args()
    connection, origins = open_tables(arguments.files, arguments.sheet)
    try:
        arguments.does(connection, origins, arguments)
    except duckdb.Error as problem:
        fail(explained(connection, origins, problem))


def command_line() -> argparse.ArgumentParser:
    """What may be asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="inspect|query|summarize|check")
    for name, does in (("inspect", inspect), ("query", query), ("summarize", summarize), ("check", check)):
        command = commands.add_parser(name, help=does.__doc__)
        command.set_defaults(does=does)
        command.add_argument("files", nargs="+", help="files, each optionally as table=file")
        command.add_argument("--sheet", help="only this sheet of a workbook")
        command.add_argument("--json", action="store_true", help="print JSON instead of text")
        if name == "query":
            command.add_argument("--sql", required=True, help="the question, in the SQL of DuckDB")
            command.add_argument("--out", type=Path, help="write all rows here: csv tsv xlsx parquet json md")
            command.add_argument("--show", type=int, default=SHOWN, help="print so many rows at most")
        if name == "summarize":
            command.add_argument("--by", help="sum up per value of this column")
            command.add_argument("--columns", help="only these columns, with commas between")
            command.add_argument("--out", type=Path, help="write the summary here")
    return parser


def inspect(connection: duckdb.DuckDBPyConnection, origins: dict[str, str], arguments: argparse.Namespace) -> None:
    """Tables, columns, types, missing and distinct values, and the first rows."""
    found = {}
    for table, origin in origins.items():
        columns = [profile(connection, table, name, kind) for name, kind in columns_of(connection, table).items()]
        rows = connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchall()[0][0]
        found[table] = {"from": origin, "rows": rows, "columns": columns}
    if arguments.json:
        print(json.dumps(found, indent=2, default=str, ensure_ascii=False))
        return
    for table, facts in found.items():
        print(f"## {table}: {facts['rows']} rows, {len(facts['columns'])} columns, from {facts['from']}\n")
        print(as_markdown(pd.DataFrame(facts["columns"])))
        print("\nFirst rows:\n")
        print(as_markdown(connection.execute(f"SELECT * FROM {quoted(table)} LIMIT 5").df()) + "\n")


def query(connection: duckdb.DuckDBPyConnection, origins: dict[str, str], arguments: argparse.Namespace) -> None:
    """Answer an SQL question; print the first rows, write all of them."""
    result = connection.sql(arguments.sql)
    if result is None:
        fail("the statement gives no rows; ask a question that begins with SELECT or WITH")
    frame = result.df()
    if arguments.out:
        write_frame(frame, arguments.out, connection)
    tell(frame, arguments)


def summarize(connection: duckdb.DuckDBPyConnection, origins: dict[str, str], arguments: argparse.Namespace) -> None:
    """Count, mean, spread and quartiles of every figure, most frequent values of the rest."""
    parts = []
    for table in origins:
        kinds = columns_of(connection, table)
        wanted = [name.strip() for name in arguments.columns.split(",")] if arguments.columns else list(kinds)
        for name in [*wanted, *([arguments.by] if arguments.by else [])]:
            if name not in kinds:
                fail(f"table {table} has no column {name!r}{suggestion(name, list(kinds))}")
        numbers = [name for name in wanted if is_number(kinds[name]) and name != arguments.by]
        parts += [distribution(connection, table, name, arguments.by) for name in numbers]
        if not arguments.by:
            parts += [frequencies(connection, table, name) for name in wanted if not is_number(kinds[name])]
    if not parts:
        fail("there is nothing to sum up: no column of figures was chosen")
    frame = pd.concat(parts, ignore_index=True)
    if arguments.out:
        write_frame(frame, arguments.out, connection)
    tell(frame, arguments)


def check(connection: duckdb.DuckDBPyConnection, origins: dict[str, str], arguments: argparse.Namespace) -> None:
    """What to know before trusting the figures: repeated rows, gaps, constants, text that is numbers, outliers."""
    findings: list[dict[str, str]] = []
    for table in origins:
        findings += [{"table": table, "finding": text} for text in doubts(connection, table)]
    if arguments.json:
        print(json.dumps(findings, indent=2, ensure_ascii=False))
    else:
        print("\n".join(f"{item['table']}: {item['finding']}" for item in findings) or "nothing suspicious was found")
    raise SystemExit(3 if findings else 0)


def doubts(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """What looks wrong in a table, in words."""
    found = []
    source = quoted(table)
    rows, different = connection.execute(
        f"SELECT (SELECT count(*) FROM {source}), (SELECT count(*) FROM (SELECT DISTINCT * FROM {source}))"
    ).fetchall()[0]
    if rows != different:
        found.append(f"{rows - different} of {rows} rows repeat another row in every column")
    for name, kind in columns_of(connection, table).items():
        found += doubts_of_column(connection, table, name, kind, rows)
    return found


def doubts_of_column(connection: duckdb.DuckDBPyConnection, table: str, name: str, kind: str, rows: int) -> list[str]:
    """What looks wrong in one column."""
    found = []
    facts = profile(connection, table, name, kind)
    if facts["missing"]:
        found.append(f"column {name!r} lacks a value in {facts['missing']} of {rows} rows")
    if facts["distinct"] == 1 and rows > 1:
        found.append(f"column {name!r} holds the same value everywhere")
    column, source = quoted(name), quoted(table)
    if kind == "VARCHAR":
        figures, blanks, filled = connection.execute(
            f"SELECT count(*) FILTER (TRY_CAST(regexp_replace({column}, '[$€£%, ]', '', 'g') AS DOUBLE) IS NOT NULL), "
            f"count(*) FILTER ({column} <> trim({column})), count({column}) FROM {source}"
        ).fetchall()[0]
        if filled and figures >= 0.8 * filled:
            found.append(f"column {name!r} is text though {figures} of {filled} values are figures; clean and cast it")
        if blanks:
            found.append(f"column {name!r} has blanks around {blanks} values; trim before grouping or joining")
    elif is_number(kind):
        found += outliers(connection, table, name)
    return found


def outliers(connection: duckdb.DuckDBPyConnection, table: str, name: str) -> list[str]:
    """Values further from the middle half than three times its width."""
    column, source = quoted(name), quoted(table)
    q1, q3 = connection.execute(
        f"SELECT quantile_cont({column}, 0.25), quantile_cont({column}, 0.75) FROM {source}"
    ).fetchall()[0]
    if q1 is None or q3 <= q1:
        return []
    low, high = q1 - 3 * (q3 - q1), q3 + 3 * (q3 - q1)
    far = connection.execute(
        f"SELECT count(*) FROM {source} WHERE {column} NOT BETWEEN ? AND ?", [low, high]
    ).fetchall()[0][0]
    return [f"column {name!r} has {far} values far outside {low:.4g} … {high:.4g}"] if far else []


def profile(connection: duckdb.DuckDBPyConnection, table: str, name: str, kind: str) -> dict[str, Any]:
    """The facts of one column."""
    column = quoted(name)
    missing, distinct, low, high = connection.execute(
        f"SELECT count(*) - count({column}), count(DISTINCT {column}), min({column})::VARCHAR, max({column})::VARCHAR "
        f"FROM {quoted(table)}"
    ).fetchall()[0]
    return {"column": name, "type": kind, "missing": missing, "distinct": distinct, "min": low, "max": high}


def distribution(connection: duckdb.DuckDBPyConnection, table: str, name: str, by: str | None) -> pd.DataFrame:
    """Where the values of a column of figures lie, per group if asked."""
    column, group = quoted(name), quoted(by) if by else None
    return connection.execute(
        f"SELECT ? AS column_name{f', {group}' if group else ''}, count({column}) AS n, "
        f"sum({column})::DOUBLE AS total, avg({column}) AS mean, stddev_samp({column}) AS sd, "
        f"min({column})::DOUBLE AS min, "
        f"quantile_cont({column}, 0.25) AS q1, median({column}) AS median, quantile_cont({column}, 0.75) AS q3, "
        f"max({column})::DOUBLE AS max FROM {quoted(table)} {f'GROUP BY {group} ORDER BY {group}' if group else ''}",
        [name],
    ).df()


def frequencies(connection: duckdb.DuckDBPyConnection, table: str, name: str) -> pd.DataFrame:
    """The five most frequent values of a column."""
    column = quoted(name)
    return connection.execute(
        f"SELECT ? AS column_name, {column}::VARCHAR AS value, count(*) AS n, "
        f"round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS percent FROM {quoted(table)} "
        f"GROUP BY {column} ORDER BY n DESC, value LIMIT 5",
        [name],
    ).df()


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """Name and type of every column."""
    rows = connection.execute(f"DESCRIBE {quoted(table)}").fetchall()
    return {row[0]: row[1] for row in rows}


def is_number(kind: str) -> bool:
    """Whether one can calculate with a type."""
    return kind.startswith(NUMERIC)


def tell(frame: pd.DataFrame, arguments: argparse.Namespace) -> None:
    """Print a result, no more of it than a reader can take in."""
    show = getattr(arguments, "show", SHOWN)
    if arguments.json:
        print(frame.head(show).to_json(orient="records", indent=2, date_format="iso", force_ascii=False))
    else:
        print(as_markdown(frame.head(show)))
    hidden = len(frame) - min(len(frame), show)
    note = f"({len(frame)} rows{f', {hidden} not shown' if hidden else ''})"
    if not arguments.json:
        print(f"\n{note}" + (f" written to {arguments.out}" if getattr(arguments, "out", None) else ""))


def explained(connection: duckdb.DuckDBPyConnection, origins: dict[str, str], problem: duckdb.Error) -> str:
    """What DuckDB objects to, and what there is instead."""
    said = first_line(problem)
    tables = {table: list(columns_of(connection, table)) for table in origins}
    there = "; ".join(f"{table}({', '.join(columns)})" for table, columns in tables.items())
    return f"{said} — the tables are {there}"


def suggestion(name: str, known: list[str]) -> str:
    """The column that was probably meant, or all there are."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"


if __name__ == "__main__":
    main()
