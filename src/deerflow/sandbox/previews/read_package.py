"""Checks of zip packages before they are parsed, and previews of archives and workbooks.

It runs in the sandbox: previews.py passes its text, joined with the text of the module that it needs.
"""

import json
import os
import re
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn
from xml.etree import ElementTree

MB = 1024 * 1024
MAX_UNPACKED = 256 * MB
MAX_MEMBERS = 4000
MAX_ENTRIES = 2000
MAX_SHEETS, MAX_ROWS, MAX_COLUMNS, MAX_CELLS = 40, 2000, 100, 100_000
MAX_CELL_CHARS = 500
MAX_NAME = 300
CHUNK = 256 * 1024
OLE_MAGIC = bytes.fromhex("d0cf11e0a1b11ae1")
"""Magic number of binary and of encrypted Office files."""
DECLARATION = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.I)
LONGEST_DECLARATION = 16
STRICT = b"http://purl.oclc.org/ooxml/"
STRICT_NAME = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
TRANSITIONAL_NAME = rb"http://schemas.openxmlformats.org/\1/2006/"
SAFE_XML_NAMES = (".xml", ".rels", ".vml")
DATE_FORMATS = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])
PERCENT_FORMATS = {9: 0, 10: 2}
PLAIN_FORMATS = {1: (0, False), 2: (2, False), 3: (0, True), 4: (2, True)}
LITERALS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
CURRENCY = re.compile(r'\[\$([^\]-]*)[^\]]*\]|"([^"]*)"|([$€£¥₹])')
CELL = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")

Reason = Literal["encrypted", "damaged", "unsafe", "too large"]
Preview = dict[str, Any]


def fail(reason: Reason, text: str) -> NoReturn:
    """Report why there is no preview, and exit."""
    json.dump({"reason": reason, "text": text}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


def report(build: Callable[[str], Preview], source: str) -> None:
    """Check a file, build its preview and print it."""
    try:
        check_package(source)
        preview = build(to_transitional(source))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeError) as problem:
        fail("damaged", f"it is damaged, or not what its name says ({type(problem).__name__})")
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, SyntaxError, RecursionError) as problem:
        fail("damaged", f"its parts cannot be read ({type(problem).__name__})")
    json.dump({"preview": preview}, sys.stdout, ensure_ascii=True)


def check_package(source: str) -> None:
    """Refuse files that are encrypted, expand too much, or declare entities, before anything parses them."""
    with Path(source).open("rb") as file:
        if file.read(len(OLE_MAGIC)) == OLE_MAGIC:
            fail("encrypted", "it is protected with a password, or an old Office file under a new name")
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        if is_office(archive) and len(members) > MAX_MEMBERS:
            fail("too large", f"it has {len(members):,} parts; files of up to {MAX_MEMBERS:,} are shown")
        for member in members:
            check_name(member.filename)
        if not is_office(archive):
            return
        if any(member.flag_bits & 1 for member in members):
            fail("encrypted", "it is protected with a password")
        unpacked = sum(member.file_size for member in members)
        if unpacked > MAX_UNPACKED:
            fail("too large", f"it unpacks to {unpacked // MB:,} MB; up to {MAX_UNPACKED // MB} MB are shown")
        for member in members:
            if member.filename.lower().endswith(SAFE_XML_NAMES):
                check_declarations(archive, member)


def to_transitional(source: str) -> str:
    """Return the file, or a copy with the usual namespaces of one that is saved as Strict Open XML."""
    with zipfile.ZipFile(source) as archive:
        if not is_office(archive) or STRICT not in archive.read("_rels/.rels"):
            return source
        copy = Path(tempfile.mkdtemp(), Path(source).name)
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as target:
            for member in archive.infolist():
                content = archive.read(member)
                is_xml = member.filename.lower().endswith(SAFE_XML_NAMES)
                target.writestr(member.filename, STRICT_NAME.sub(TRANSITIONAL_NAME, content) if is_xml else content)
    return str(copy)


def is_office(archive: zipfile.ZipFile) -> bool:
    """Return whether a zip file is a package of parts, as Office files are."""
    return "[Content_Types].xml" in archive.NameToInfo


def check_name(name: str) -> None:
    """Refuse names that leave the folder into which an archive is unpacked."""
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        fail("unsafe", f"it contains a path that leaves its folder: {name[:MAX_NAME]!r}")


def check_declarations(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse XML with a document type: Office files never have one, and entities can expand without limit."""
    tail = b""
    with archive.open(member) as part:
        while chunk := part.read(CHUNK):
            text = tail + chunk.replace(b"\0", b"")  # UTF-16 has a null byte next to each of these characters
            if DECLARATION.search(text):
                fail("unsafe", f"its part {member.filename[:MAX_NAME]!r} declares entities, which Office never does")
            tail = text[-LONGEST_DECLARATION:]


def preview_archive(source: str) -> Preview:
    """Return the list of files in a zip archive."""
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
    entries = [
        {
            "name": member.filename[:MAX_NAME],
            "size": member.file_size,
            "packed": member.compress_size,
            "is_folder": member.is_dir(),
            "is_encrypted": bool(member.flag_bits & 1),
        }
        for member in members[:MAX_ENTRIES]
    ]
    total = sum(member.file_size for member in members)
    return {"kind": "archive", "entries": entries, "total": len(members), "size": total}


def preview_workbook(source: str) -> Preview:
    """Return the cells of the sheets of a workbook, up to the limits."""
    with zipfile.ZipFile(source) as archive:
        book = Workbook(archive)
        sheets = []
        for name, part, is_hidden in book.sheets[:MAX_SHEETS]:
            rows, total_rows, total_columns = book.read_sheet(part)
            sheets.append(
                {
                    "name": name[:MAX_NAME],
                    "is_hidden": is_hidden,
                    "rows": rows,
                    "total_rows": total_rows,
                    "total_columns": total_columns,
                }
            )
    return {"kind": "workbook", "sheets": sheets, "total_sheets": len(book.sheets)}


def local_name(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace, which has two versions."""
    return element.tag.rpartition("}")[2]


def find_all(element: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """Yield the descendants with a name, in any namespace."""
    return (each for each in element.iter() if local_name(each) == name)


class Workbook:
    """Sheets, strings and number formats of a workbook."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._cells_left = MAX_CELLS
        main = self._find_main()
        book = ElementTree.fromstring(archive.read(main))
        folder = main.rpartition("/")[0]
        targets = self._read_targets(main)
        self.sheets = [
            (sheet.get("name", ""), join_part(folder, target), sheet.get("state", "visible") != "visible")
            for sheet in find_all(book, "sheet")
            if (target := targets.get(find_relation(sheet))) is not None and "chartsheet" not in target
        ]
        self._epoch = datetime(1899, 12, 30, tzinfo=UTC)
        if any(each.get("date1904") in ("1", "true") for each in find_all(book, "workbookPr")):
            self._epoch = datetime(1904, 1, 1, tzinfo=UTC)
        named = {target.rpartition("/")[2]: join_part(folder, target) for target in targets.values()}
        self._strings = list(self._read_strings(named.get("sharedStrings.xml", "xl/sharedStrings.xml")))
        self._formats = self._read_formats(named.get("styles.xml", "xl/styles.xml"))

    def _find_main(self) -> str:
        for relation in find_all(ElementTree.fromstring(self._archive.read("_rels/.rels")), "Relationship"):
            if relation.get("Type", "").endswith("/officeDocument"):
                return relation.get("Target", "").lstrip("/")
        raise KeyError("no workbook")

    def _read_targets(self, part: str) -> dict[str, str]:
        folder, _, name = part.rpartition("/")
        path = f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels"
        relations = find_all(ElementTree.fromstring(self._archive.read(path)), "Relationship")
        return {relation.get("Id", ""): relation.get("Target", "") for relation in relations}

    def _read_strings(self, part: str) -> Iterator[str]:
        if part not in self._archive.NameToInfo:
            return
        with self._archive.open(part) as file:
            for _, element in ElementTree.iterparse(file):
                if local_name(element) == "si":
                    yield join_text(element)[:MAX_CELL_CHARS]
                    element.clear()

    def _read_formats(self, part: str) -> list[tuple[int, str]]:
        if part not in self._archive.NameToInfo:
            return []
        styles = ElementTree.fromstring(self._archive.read(part))
        codes = {int(each.get("numFmtId", "0")): each.get("formatCode", "") for each in find_all(styles, "numFmt")}
        table = next(find_all(styles, "cellXfs"), None)
        ids = [int(each.get("numFmtId", "0")) for each in (table if table is not None else ())]
        return [(number, codes.get(number, "")) for number in ids]

    def read_sheet(self, part: str) -> tuple[list[list[str]], int, int]:
        """Return the rows of a sheet up to the limits, and its number of rows and columns."""
        rows: dict[int, dict[int, str]] = {}
        last_row = last_column = 0
        with self._archive.open(part) as file:
            for _, element in ElementTree.iterparse(file):
                if local_name(element) != "row":
                    continue
                row = int(element.get("r") or last_row + 1)
                cells = self._read_row(element) if row <= MAX_ROWS and self._cells_left > 0 else {}
                last_row = max(last_row, row)
                last_column = max(last_column, len(element), *(column + 1 for column in cells), 0)
                self._cells_left -= len(cells)
                rows[row] = {column: text for column, text in cells.items() if column < MAX_COLUMNS}
                element.clear()
        shown = max((row for row, cells in rows.items() if cells), default=0)
        width = max((column + 1 for cells in rows.values() for column in cells), default=0)
        grid = [[rows.get(row, {}).get(column, "") for column in range(width)] for row in range(1, shown + 1)]
        return grid, max(last_row, shown) if grid else 0, max(last_column, width) if grid else 0

    def _read_row(self, row: ElementTree.Element) -> dict[int, str]:
        cells: dict[int, str] = {}
        following = 0
        for cell in row:
            place = CELL.fullmatch(cell.get("r", ""))
            column = column_number(place[1]) if place else following
            following = column + 1
            if text := self._read_cell(cell):
                cells[column] = text[:MAX_CELL_CHARS]
        return cells

    def _read_cell(self, cell: ElementTree.Element) -> str:
        kind = cell.get("t", "n")
        parts = {local_name(part): part for part in cell}
        if kind == "inlineStr":
            return join_text(cell)
        value = parts["v"].text if "v" in parts else None
        if value is None:
            formula = parts["f"].text if "f" in parts else None
            return f"={formula}" if formula else ""
        if kind == "s":
            return self._strings[int(value)] if int(value) < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind in ("str", "e", "d"):
            return value
        style = int(cell.get("s", "0"))
        number, code = self._formats[style] if style < len(self._formats) else (0, "")
        return format_number(value, number, code, self._epoch)


def find_relation(sheet: ElementTree.Element) -> str:
    """Return the relation id of a sheet."""
    return next((value for key, value in sheet.attrib.items() if key.endswith("}id")), "")


def join_part(folder: str, target: str) -> str:
    """Return the name of a part; targets are relative to the folder or absolute."""
    return target.lstrip("/") if target.startswith("/") else f"{folder}/{target}".lstrip("/")


def join_text(element: ElementTree.Element) -> str:
    """Return the text of a string, without phonetic hints."""
    hints = {text for hint in find_all(element, "rPh") for text in hint.iter()}
    return "".join(text.text or "" for text in find_all(element, "t") if text not in hints)


def column_number(letters: str) -> int:
    """Return the index of a column: A is 0."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1


def format_number(value: str, number: int, code: str, epoch: datetime) -> str:
    """Return a number as its cell shows it, for the common formats."""
    try:
        amount = float(value)
    except ValueError:
        return value
    plain = LITERALS.sub("", code.split(";")[0])
    if number in DATE_FORMATS or (code and re.search(r"[dmyhs]", plain, re.I) and "0" not in plain):
        return format_date(amount, epoch)
    if number in PERCENT_FORMATS or plain.endswith("%"):
        decimals = PERCENT_FORMATS.get(number, count_decimals(plain))
        return f"{amount * 100:.{decimals}f}%"
    if number in PLAIN_FORMATS or (plain and re.search("[0#]", plain) and "E" not in plain):
        decimals, grouped = PLAIN_FORMATS.get(number, (count_decimals(plain), "," in plain))
        text = f"{abs(amount):{',' if grouped else ''}.{decimals}f}"
        return f"{'-' if amount < 0 else ''}{add_unit(text, code.split(';')[0])}"
    return f"{amount:.10g}" if abs(amount) < 1e15 else f"{amount:.6g}"


def count_decimals(code: str) -> int:
    """Return the number of decimals of a format."""
    fraction = re.search(r"\.([0#?]+)", code)
    return len(fraction[1]) if fraction else 0


def add_unit(text: str, code: str) -> str:
    """Return a number with the currency or the unit of its format."""
    found = CURRENCY.search(code)
    if found is None:
        return text
    unit = next((group for group in found.groups() if group), "")
    return f"{unit}{text}" if found.start() < (code.find("0") if "0" in code else len(code)) else f"{text}{unit}"


def format_date(amount: float, epoch: datetime) -> str:
    """Return a date, a time, or both."""
    try:
        moment = epoch + timedelta(days=amount)
    except OverflowError:
        return f"{amount:g}"
    if 0 <= amount < 1:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d}" if amount == int(amount) else f"{moment:%Y-%m-%d %H:%M}"
