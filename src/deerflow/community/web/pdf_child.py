"""PDF text extraction in a separate process, run as `python -I pdf_child.py LIMITS`: PDF files are untrusted.

Standard input is the file, standard output the result as JSON. Before reading the file the process drops its
privileges: memory, CPU time, files, processes, and root.
"""

import codecs
import io
import json
import struct
import sys
import time
import zlib
from collections.abc import Mapping
from typing import Any

from pypdf import PdfReader, PdfWriter
from pypdf.errors import PyPdfError
from pypdf.generic import DictionaryObject, NameObject, StreamObject

from deerflow.sandbox.jobs import drop_privileges

BROKEN = (
    PyPdfError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, RuntimeError,
    NotImplementedError, EOFError, OSError, struct.error, zlib.error,
)  # fmt: skip
"""Exceptions that the library raises for malformed files."""
ENCRYPTED, DAMAGED = "encrypted", "damaged"
ENCODINGS = ("utf-16", "utf-16-be", "utf-16-le", "utf-8-sig", "latin-1", "cp1252", "mac-roman", "charmap")
"""Encodings of strings in PDF files; which ones the library tries depends on their bytes."""


def main() -> None:
    """Read one file."""
    limits = json.loads(sys.argv[1])
    sys.setrecursionlimit(limits["recursion"])
    # Loads lazy imports now: after dropping root, the files may be unreadable.
    read(make_sample(), limits)
    for encoding in ENCODINGS:
        codecs.lookup(encoding)
    drop_privileges(limits["cpu_s"], limits["memory_bytes"], limits["uid"])
    try:
        found = read(sys.stdin.buffer.read(), limits)
    except BROKEN:
        found = {"problem": DAMAGED}
    json.dump(found, sys.stdout)


def read(body: bytes, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return title and text of a file, page by page, until there is enough text or the time is over."""
    reader = PdfReader(io.BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"problem": ENCRYPTED}
    until = time.process_time() + limits["reading_s"]
    pages, chars, words = [], 0, 0
    for number, page in enumerate(reader.pages, 1):
        if time.process_time() > until or chars > limits["max_chars"]:
            break
        text = extract_text(page)
        pages.append(f"<!-- Page {number} -->\n{text}")
        chars += len(text)
        words += bool(text)
    text = "\n\n".join(pages).replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return {
        "title": extract_title(reader),
        "text": text if words else "",
        "pages": len(reader.pages),
        "read": len(pages),
    }


def extract_text(page: Any) -> str:
    """Return the text of a page; empty if it is damaged."""
    try:
        return "\n".join(line.rstrip() for line in page.extract_text().splitlines()).strip()
    except BROKEN:
        return ""


def extract_title(reader: PdfReader) -> str:
    """Return the title in the metadata of a file."""
    try:
        title = reader.metadata.title if reader.metadata else ""
    except BROKEN:
        return ""
    return " ".join(str(title or "").split()).encode("utf-8", "replace").decode()


def make_sample() -> bytes:
    """Return a PDF file with one word."""
    writer, written = PdfWriter(), io.BytesIO()
    page = writer.add_blank_page(100, 100)
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    named = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    fonts = DictionaryObject({NameObject("/F1"): named})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    content = StreamObject()
    content.set_data(b"BT /F1 12 Tf 10 10 Td (word) Tj ET")
    page[NameObject("/Contents")] = content.flate_encode()
    writer.encrypt("", algorithm="AES-128")
    writer.write(written)
    return written.getvalue()


if __name__ == "__main__":
    main()
