"""Write the text of a paper with a mark before each page, so that quotes can be found again."""

import argparse
import logging
import re
import sys
from pathlib import Path

try:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError
except ImportError:
    PdfReader = None

CHARS_OF_A_PAGE = 200
"""A page with less text is probably a picture."""


class Unusable(Exception):
    """A paper that cannot be read."""


def main() -> int:
    """Write one paper's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paper", type=Path, help="a .pdf, .txt or .md file")
    parser.add_argument("--out", type=Path, required=True, help="the text file to write")
    options = parser.parse_args()
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what matters of its remarks becomes our sentence
    try:
        pages = pages_of(options.paper)
        marked = "\n\n".join(f"[page {number}]\n{text.strip()}" for number, text in enumerate(pages, 1))
        options.out.write_text(marked + "\n", encoding="utf-8")
    except (Unusable, OSError, UnicodeDecodeError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    words = sum(len(page.split()) for page in pages)
    print(f"{len(pages)} pages, {words} words, in {options.out}")
    poor = [str(number) for number, page in enumerate(pages, 1) if len(page.strip()) < CHARS_OF_A_PAGE]
    if options.paper.suffix.lower() == ".pdf" and len(poor) * 2 > len(pages):
        print(f"Warning: pages {', '.join(poor)} have hardly any text; it is probably a scan and needs OCR first")
    return 0


def pages_of(paper: Path) -> list[str]:
    """The text of each page; a text file's pages end with a form feed."""
    if not paper.is_file():
        raise Unusable(f"there is no file {paper}")
    if paper.suffix.lower() in (".txt", ".md"):
        return paper.read_text(encoding="utf-8").split("\f")
    if paper.suffix.lower() != ".pdf":
        raise Unusable(f"{paper.name} is neither PDF nor text; convert it to PDF first")
    if PdfReader is None:
        raise Unusable("reading PDF needs the package pypdf, which is not installed in this sandbox")
    try:
        reader = PdfReader(paper)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unusable(f"{paper.name} is protected by a password; ask the user for an open copy")
        return [joined(page.extract_text() or "") for page in reader.pages]
    except PyPdfError as problem:
        raise Unusable(f"{paper.name} is not a PDF that can be read: {problem}") from None


def joined(text: str) -> str:
    """Text without the hyphens at the ends of lines."""
    return re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", text)


if __name__ == "__main__":
    sys.exit(main())
