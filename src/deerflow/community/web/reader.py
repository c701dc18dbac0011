"""Conversion of pages to text in a limited child process, because parsers of untrusted pages are not trusted."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from deerflow.community.web.http import Unreadable
from deerflow.sandbox.files.mounts import file_owner
from deerflow.sandbox.jobs import run_child

CHILD = Path(__file__).with_name("reader_child.py")
PDF_CHILD = Path(__file__).with_name("pdf_child.py")
MAX_CONCURRENT = 4
MAX_RESULT_BYTES = 16 * 1024 * 1024

Result = TypeVar("Result", bound=BaseModel)


class ReadablePage(BaseModel):
    """Title and text of a page."""

    title: str
    text: str


class PdfText(BaseModel):
    """Text of a PDF file; `problem` is the reason if there is none."""

    title: str = ""
    text: str = ""
    pages: int = 0
    read: int = 0
    """Number of pages read, from the first."""
    problem: Literal["encrypted", "damaged"] | None = None


class ExtractedRows(BaseModel):
    """Values extracted from the elements of a page."""

    rows: list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """Resource limits of a child process."""

    wall_s: float = 15.0
    cpu_s: int = 10
    memory_bytes: int = 768 * 1024 * 1024
    recursion: int = 5_000


PDF_LIMITS = ReaderLimits(wall_s=60.0, cpu_s=40, memory_bytes=1024 * 1024 * 1024, recursion=2_000)
PDF_READING_S = 20.0
"""Time after which no further page of a PDF is started."""
MAX_PDF_CHARS = 4_000_000


@dataclass(frozen=True, slots=True)
class PageReader:
    """Converter that starts a child process per page, a few at a time."""

    limits: ReaderLimits = ReaderLimits()
    pdf_limits: ReaderLimits = PDF_LIMITS
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))

    async def page(self, body: bytes, charset: str | None, url: str) -> ReadablePage:
        """Return the content of an HTML page as Markdown with absolute links."""
        return await self._run_task({"task": "page", "charset": charset, "url": url}, body, ReadablePage)

    async def text(self, body: bytes, charset: str | None) -> ReadablePage:
        """Return a text in any encoding."""
        return await self._run_task({"task": "text", "charset": charset}, body, ReadablePage)

    async def pdf(self, body: bytes) -> PdfText:
        """Return the text of a PDF file, each page after a line with its number."""
        extra = {"reading_s": PDF_READING_S, "max_chars": MAX_PDF_CHARS}
        return await self._run(PDF_CHILD, self.pdf_limits, extra, body, PdfText)

    async def rows(self, body: bytes, row: str, fields: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Return the values of the XPaths in `fields` for each element that the XPath `row` selects."""
        task = {"task": "rows", "charset": None, "row": row, "fields": dict(fields)}
        return (await self._run_task(task, body, ExtractedRows)).rows

    async def _run_task(self, task: Mapping[str, object], body: bytes, result: type[Result]) -> Result:
        return await self._run(CHILD, self.limits, {}, json.dumps(task).encode() + b"\n" + body, result)

    async def _run(
        self, child: Path, limits: ReaderLimits, extra: Mapping[str, object], data: bytes, result: type[Result]
    ) -> Result:
        """Run a child process and parse its output."""
        given = {"cpu_s": limits.cpu_s, "memory_bytes": limits.memory_bytes, "recursion": limits.recursion, **extra}
        arguments = (str(child), json.dumps({**given, "uid": file_owner()}))
        async with self.slots:
            output = await run_child(arguments, data, limits.wall_s, MAX_RESULT_BYTES)
        try:
            return result.model_validate_json(output)
        except ValidationError as problem:
            raise Unreadable("no text could be extracted from the page; try another source") from problem
