"""Takes the text out of PDF files; a program of its own, run as `python -I pdf_child.py LIMITS`: nobody trusts them.

Standard input is the file, standard output the result, as JSON. Before it looks at the file it gives up what it does
not need: memory, time, files, processes, and root.
"""

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

from deerflow.sandbox.relinquishing import give_up

BROKEN = (
    PyPdfError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, RuntimeError,
    NotImplementedError, EOFError, OSError, struct.error, zlib.error,
)  # fmt: skip
"""What a file that is not built as it should be makes the library raise."""
ENCRYPTED, DAMAGED = "encrypted", "damaged"


def main() -> None:
    """Read one file."""
    limits = json.loads(sys.argv[1])
    sys.setrecursionlimit(limits["recursion"])
    read(sample(), limits)  # loads what is loaded late: whoever we are soon may be unable to read the code of it
    give_up(limits["cpu_s"], limits["memory_bytes"], limits["uid"])
    try:
        found = read(sys.stdin.buffer.read(), limits)
    except BROKEN:
        found = {"problem": DAMAGED}
    json.dump(found, sys.stdout)


def read(body: bytes, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Title and text of a file, page by page, until there is enough of it or the time is over."""
    reader = PdfReader(io.BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"problem": ENCRYPTED}
    until = time.process_time() + limits["reading_s"]
    pages, chars, words = [], 0, 0
    for number, page in enumerate(reader.pages, 1):
        if time.process_time() > until or chars > limits["max_chars"]:
            break
        text = text_of(page)
        pages.append(f"<!-- Page {number} -->\n{text}")
        chars += len(text)
        words += bool(text)
    text = "\n\n".join(pages).replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return {"title": title_of(reader), "text": text if words else "", "pages": len(reader.pages), "read": len(pages)}


def text_of(page: Any) -> str:
    """The text of a page; of one that is damaged nothing."""
    try:
        return "\n".join(line.rstrip() for line in page.extract_text().splitlines()).strip()
    except BROKEN:
        return ""


def title_of(reader: PdfReader) -> str:
    """What the file says that it is called."""
    try:
        title = reader.metadata.title if reader.metadata else ""
    except BROKEN:
        return ""
    return " ".join(str(title or "").split()).encode("utf-8", "replace").decode()


def sample() -> bytes:
    """A file with one word."""
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
