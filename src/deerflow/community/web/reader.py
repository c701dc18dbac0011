"""Makes pages readable in a child process that can do no harm, for parsers of pages are not to be trusted."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from deerflow.community.web.problems import Unreadable
from deerflow.sandbox.children import run_child
from deerflow.sandbox.places import file_owner

CHILD = Path(__file__).with_name("reader_child.py")
PDF_CHILD = Path(__file__).with_name("pdf_child.py")
AT_ONCE = 4
MAX_RESULT_BYTES = 16 * 1024 * 1024

Result = TypeVar("Result", bound=BaseModel)


class Readable(BaseModel):
    """A page that can be read."""

    title: str
    text: str


class ReadPdf(BaseModel):
    """What was got out of a PDF file; `problem` says why nothing was."""

    title: str = ""
    text: str = ""
    pages: int = 0
    read: int = 0
    """So many of its pages, from the first."""
    problem: Literal["encrypted", "damaged"] | None = None


class Rows(BaseModel):
    """What was found in the elements of a page."""

    rows: list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """What a child may use."""

    wall_s: float = 15.0
    cpu_s: int = 10
    memory_bytes: int = 768 * 1024 * 1024
    recursion: int = 5_000


PDF_LIMITS = ReaderLimits(wall_s=60.0, cpu_s=40, memory_bytes=1024 * 1024 * 1024, recursion=2_000)
PDF_READING_S = 20.0
"""After so much time no further page of a PDF is begun."""
MAX_PDF_CHARS = 4_000_000


@dataclass(frozen=True, slots=True)
class Reader:
    """Starts a child for each page, a few at a time."""

    limits: ReaderLimits = ReaderLimits()
    pdf_limits: ReaderLimits = PDF_LIMITS
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def page(self, body: bytes, charset: str | None, url: str) -> Readable:
        """The content of an HTML page as Markdown, with links that are complete."""
        return await self._order({"task": "page", "charset": charset, "url": url}, body, Readable)

    async def text(self, body: bytes, charset: str | None) -> Readable:
        """A text, whatever its encoding."""
        return await self._order({"task": "text", "charset": charset}, body, Readable)

    async def pdf(self, body: bytes) -> ReadPdf:
        """The text of a PDF file, each page after a line with its number."""
        more = {"reading_s": PDF_READING_S, "max_chars": MAX_PDF_CHARS}
        return await self._result(PDF_CHILD, self.pdf_limits, more, body, ReadPdf)

    async def rows(self, body: bytes, row: str, fields: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """For each element that the XPath `row` leads to, what the paths in `fields` lead to from there."""
        order = {"task": "rows", "charset": None, "row": row, "fields": dict(fields)}
        return (await self._order(order, body, Rows)).rows

    async def _order(self, order: Mapping[str, object], body: bytes, result: type[Result]) -> Result:
        return await self._result(CHILD, self.limits, {}, json.dumps(order).encode() + b"\n" + body, result)

    async def _result(
        self, child: Path, limits: ReaderLimits, more: Mapping[str, object], sent: bytes, result: type[Result]
    ) -> Result:
        """What a child makes of its input."""
        given = {"cpu_s": limits.cpu_s, "memory_bytes": limits.memory_bytes, "recursion": limits.recursion, **more}
        arguments = (str(child), json.dumps({**given, "uid": file_owner()}))
        async with self.turns:
            output = await run_child(arguments, sent, limits.wall_s, MAX_RESULT_BYTES)
        try:
            return result.model_validate_json(output)
        except ValidationError as problem:
            raise Unreadable("the page is so built that no text could be got from it; try another source") from problem
