"""Reads data files into DuckDB tables and writes results out again."""

import csv
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import pandas as pd

TEXT = {".csv", ".tsv", ".txt"}
BOOKS = {".xlsx", ".xlsm"}
READABLE = ("csv", "tsv", "txt", "xlsx", "xlsm", "parquet", "json", "jsonl")
WRITABLE = ("csv", "tsv", "xlsx", "parquet", "json", "md")
ENCODINGS = ("utf-8-sig", "cp1252")
HEADER_ROWS_SEARCHED = 20
ONLY_EMPTY_IS_MISSING: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
"""Otherwise "NA" would be, which is Namibia as often as nothing."""


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


def open_tables(sources: list[str], sheet: str | None = None) -> tuple[duckdb.DuckDBPyConnection, dict[str, str]]:
    """A database with one table per file (per sheet of a workbook), and where each table comes from."""
    connection = duckdb.connect()
    # Without a network the attempt to fetch an extension would hide what is really wrong.
    connection.execute("SET autoinstall_known_extensions = false")
    origins: dict[str, str] = {}
    for source in sources:
        given, separator, rest = source.partition("=")
        named = bool(separator) and given.isidentifier()
        path = Path(rest if named else source)
        if not path.is_file():
            fail(f"there is no file {str(path)!r}")
        for name, origin, content in read_file(connection, path, sheet):
            table = unused(given if named and name is None else identifier(name or path.stem), origins)
            connection.register("incoming", content)
            connection.execute(f"CREATE TABLE {quoted(table)} AS SELECT * FROM incoming")
            connection.unregister("incoming")
            origins[table] = origin
    return connection, origins


def read_file(
    connection: duckdb.DuckDBPyConnection, path: Path, sheet: str | None
) -> list[tuple[str | None, str, Any]]:
    """What a file holds as (name of the part or None, origin, rows)."""
    kind = path.suffix.lower()
    try:
        if kind in BOOKS:
            return read_book(path, sheet)
        if kind in TEXT:
            return [(None, str(path), read_text(connection, path))]
        if kind == ".parquet":
            return [(None, str(path), connection.read_parquet(str(path)))]
        if kind in {".json", ".jsonl", ".ndjson"}:
            return [(None, str(path), connection.read_json(str(path)))]
    except SystemExit:
        raise
    except (duckdb.Error, OSError, ValueError, KeyError, UnicodeError) as problem:
        fail(f"{path.name} cannot be read as {kind.lstrip('.')}: {first_line(problem)}")
    fail(f"{path.name} is of no kind this reads; it reads {', '.join(READABLE)}")


def read_text(connection: duckdb.DuckDBPyConnection, path: Path) -> Any:
    """Rows of a delimited file; what is not UTF-8 is taken for Windows-1252, and said."""
    raw = path.read_bytes()
    if not raw.strip():
        fail(f"{path.name} is empty")
    if b"\0" in raw[:4096]:
        fail(f"{path.name} is no text but binary data; is its ending right?")
    for encoding in ENCODINGS:
        try:
            text = raw.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    else:
        fail(f"{path.name} is neither UTF-8 nor Windows-1252 text; convert it first")
    if encoding == "utf-8-sig":
        return connection.read_csv(str(path), sample_size=-1)
    print(f"note: {path.name} is not UTF-8, read as {encoding}", file=sys.stderr)
    dialect = csv.Sniffer().sniff(text[:20_000], delimiters=",;\t|")
    return pd.read_csv(path, encoding=encoding, sep=dialect.delimiter, **ONLY_EMPTY_IS_MISSING)


def read_book(path: Path, sheet: str | None) -> list[tuple[str | None, str, Any]]:
    """The sheets of a workbook that hold something, each from its header row on."""
    try:
        # pandas loads the reader of workbooks only now: most tables are text, and start faster without it.
        sheets = pd.read_excel(path, sheet_name=None, header=None, dtype=object, **ONLY_EMPTY_IS_MISSING)
    except Exception:  # noqa: BLE001 - the reader lets zip, XML and key errors through
        fail(f"{path.name} is no readable workbook: it is damaged, protected by a password, or of another kind")
    if sheet is not None and sheet not in sheets:
        fail(f"{path.name} has no sheet {sheet!r}; it has {', '.join(map(repr, sheets))}")
    found: list[tuple[str | None, str, Any]] = []
    for name in [sheet] if sheet else sheets:
        cells = sheets[name].astype(object).where(sheets[name].notna(), None)
        rows = [row for row in cells.itertuples(index=False, name=None) if filled(row)]
        if len(rows) > 1:
            found.append((f"{path.stem}_{name}", f"{path} [{name}]", frame_of(rows)))
    if not found:
        fail(f"{path.name} has no sheet with a header and rows")
    return [(None, found[0][1], found[0][2])] if len(found) == 1 else found


def frame_of(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Rows as a table. The header is the first row as full as any near the top, for titles often stand above it."""
    top = rows[:HEADER_ROWS_SEARCHED]
    width = max(filled(row) for row in top)
    start = next(number for number, row in enumerate(top) if filled(row) == width)
    names: list[str] = []
    for number, cell in enumerate(rows[start]):
        name = str(cell).strip() if cell is not None else f"column_{number + 1}"
        names.append(name if name not in names else f"{name}_{number + 1}")
    frame = pd.DataFrame(rows[start + 1 :], columns=names).dropna(axis="columns", how="all")
    # Mixed columns cannot be stored as they are; as text nothing of them is lost.
    for name in frame.columns:
        kinds = {type(value) for value in frame[name] if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            frame[name] = frame[name].map(lambda value: None if value is None else str(value))
    return frame.infer_objects()


def filled(row: tuple[Any, ...]) -> int:
    """How many cells of a row hold something."""
    return sum(cell is not None for cell in row)


def write_frame(frame: pd.DataFrame, target: Path, connection: duckdb.DuckDBPyConnection) -> None:
    """A result as a file of the kind its ending names."""
    kind = target.suffix.lower().lstrip(".")
    if kind not in WRITABLE:
        fail(f"results are written as {', '.join(WRITABLE)}, not as {kind or 'a file without an ending'!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if kind in {"csv", "tsv"}:
        frame.to_csv(target, index=False, sep="\t" if kind == "tsv" else ",")
    elif kind == "json":
        frame.to_json(target, orient="records", indent=2, date_format="iso", force_ascii=False)
    elif kind == "md":
        target.write_text(as_markdown(frame) + "\n", encoding="utf-8")
    elif kind == "parquet":
        connection.register("result", frame)
        connection.execute(f"COPY result TO '{str(target).replace(chr(39), chr(39) * 2)}' (FORMAT parquet)")
    else:
        write_book(frame, target)


def write_book(frame: pd.DataFrame, target: Path) -> None:
    """A workbook a person can use at once: header frozen and filterable, columns as wide as their content."""
    options = {"options": {"remove_timezone": True}}
    with pd.ExcelWriter(target, engine="xlsxwriter", datetime_format="yyyy-mm-dd", engine_kwargs=options) as writer:
        frame.to_excel(writer, sheet_name="Result", index=False)
        sheet = writer.sheets["Result"]
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, max(len(frame), 1), max(len(frame.columns) - 1, 0))
        for number, name in enumerate(frame.columns):
            longest = max([len(str(name)), *(len(str(value)) for value in frame.iloc[:500, number])])
            sheet.set_column(number, number, min(longest + 2, 60))


def as_markdown(frame: pd.DataFrame) -> str:
    """A table in Markdown, with figures a person can read."""
    head = "| " + " | ".join(escaped(name) for name in frame.columns) + " |"
    rule = "|" + "|".join("---:" if pd.api.types.is_numeric_dtype(kind) else "---" for kind in frame.dtypes) + "|"
    body = ["| " + " | ".join(escaped(shown(value)) for value in row) + " |" for row in frame.itertuples(index=False)]
    return "\n".join([head, rule, *body])


def shown(value: Any) -> str:
    """One cell as text."""
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):
        return ""
    return f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1 else readable(value)


def readable(value: Any) -> str:
    """A figure with thousands apart, a day without its midnight, everything else as it is."""
    if isinstance(value, float):
        return f"{value:,.2f}".removesuffix(".00")
    return str(value).removesuffix(" 00:00:00")


def escaped(text: Any) -> str:
    """Text that does not end its cell."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def identifier(text: str) -> str:
    """A name SQL takes without quotes."""
    name = re.sub(r"\W+", "_", text).strip("_").lower() or "data"
    return f"t_{name}" if name[0].isdigit() else name


def unused(name: str, taken: dict[str, str]) -> str:
    """The name, numbered when another table has it."""
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def first_line(problem: BaseException) -> str:
    """The gist of an error."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
