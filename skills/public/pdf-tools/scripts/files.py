"""Opens PDF files, understands page ranges, and says in one sentence what is wrong."""

import logging
import re
import sys
from pathlib import Path
from typing import NoReturn

from pypdf import PdfReader, PdfWriter
from pypdf.errors import PyPdfError

RANGE = re.compile(r"(\d+|last)?(-)?(\d+|last)?")


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


def opened(path: Path, password: str = "") -> PdfReader:
    """A PDF, decrypted."""
    if not path.is_file():
        fail(f"there is no file {str(path)!r}")
    # What is odd in a file but can be read is of no use to whoever called.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(str(path))
        if reader.is_encrypted and not reader.decrypt(password):
            fail(f"{path.name} is encrypted; give its password with --password")
        count = len(reader.pages)
    except (PyPdfError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        fail(f"{path.name} is no readable PDF")
    if count == 0:
        fail(f"{path.name} has no pages")
    return reader


def chosen(text: str | None, count: int) -> list[int]:
    """Pages, counted from 0, of a choice such as `1-3,7,9-last`; the order given is kept."""
    if not text:
        return list(range(count))
    pages: list[int] = []
    for part in text.split(","):
        match = RANGE.fullmatch(part.strip())
        if not match or not any(match.groups()):
            fail(f"{part.strip()!r} is no choice of pages; write for instance 1-3,7,9-last")
        first = number(match[1] or "1", count)
        last = number(match[3] or ("last" if match[2] else match[1] or "1"), count)
        pages += range(first - 1, last) if first <= last else range(first - 1, last - 2, -1)
    return pages


def number(text: str, count: int) -> int:
    """A page number that exists."""
    value = count if text == "last" else int(text)
    if not 1 <= value <= count:
        fail(f"there is no page {value}; there are {count}")
    return value


def save(writer: PdfWriter, target: Path) -> None:
    """Write a PDF; a file that cannot be written is named."""
    if target.suffix.lower() != ".pdf":
        fail(f"{target.name} must end in .pdf")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            writer.write(file)
    except OSError as problem:
        fail(f"{target} cannot be written: {(problem.strerror or str(problem)).lower()}")
    print(f"{target}: {len(writer.pages)} page{'s' if len(writer.pages) != 1 else ''}")
