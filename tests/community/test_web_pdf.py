"""PDF files on the web, including malicious ones."""

import asyncio
import io
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from pypdf import PdfReader, PdfWriter
from reportlab.pdfgen.canvas import Canvas

from deerflow.community.web.http import Unreadable
from deerflow.community.web.reader import PDF_LIMITS, PageReader, ReaderLimits
from tests.community.web_site import ScriptedResponse, Site, call_tool, create_tool, open_site

LIMIT_S = 60.0


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


def build_pdf(*pages: str, title: str = "Herds", password: str | None = None) -> bytes:
    drawn = io.BytesIO()
    canvas = Canvas(drawn)
    canvas.setTitle(title)
    for text in pages:
        for row, line in enumerate(text.splitlines()):
            canvas.drawString(72, 760 - 14 * row, line)
        canvas.showPage()
    canvas.save()
    if password is None:
        return drawn.getvalue()
    writer, locked = PdfWriter(clone_from=PdfReader(drawn)), io.BytesIO()
    writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    writer.write(locked)
    return locked.getvalue()


async def fetch(site: Site, body: bytes, offset: int = 0, content_type: str = "application/pdf", **more: object) -> str:
    site.routes["/f.pdf"] = ScriptedResponse(body, headers={"Content-Type": content_type})
    tool = create_tool("web_fetch", "web_fetch", allow_private_addresses=True, respect_robots=False, **more)
    async with asyncio.timeout(LIMIT_S):
        return await call_tool(tool, url=f"{site.url}/f.pdf", offset=offset)


async def test_reads_a_pdf_by_page_and_in_chunks(site: Site) -> None:
    body = build_pdf("In 2024 there were 1,482 deer.", "\n".join(f"Line {number} of page two." for number in range(40)))
    text = await fetch(site, body, max_chars=600)
    assert text.startswith(f"# Herds\nSource: {site.url}/f.pdf\n\n<!-- Page 1 -->\nIn 2024 there were 1,482 deer.\n\n")
    assert "<!-- Page 2 -->\nLine 0 of page two.\n" in text and "Go on with offset=" in text
    offset = int(text.rpartition("offset=")[2].partition(".")[0])
    rest = await fetch(site, body, offset, max_chars=600)
    assert "of page two." in rest and "Page 1" not in rest and "This is the end." in rest


async def test_detects_a_pdf_and_opens_an_empty_password(site: Site) -> None:
    locked = build_pdf("Open to all.", password="")
    assert "Open to all." in await fetch(site, locked, content_type="application/octet-stream")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build_pdf("Secret.", password="word"), "is a PDF file that needs a password"),
        (lambda: b"%PDF-1.7\n" + b"garbage " * 50, "is a damaged PDF file"),
        (lambda: build_pdf("Cut off.")[:400], "is a damaged PDF file"),
        (lambda: build_pdf("", ""), "is a PDF file of 2 pages without text"),
    ],
    ids=["locked", "garbage", "cut", "scanned"],
)
async def test_reports_why_a_pdf_cannot_be_read(site: Site, make: Callable[[], bytes], message: str) -> None:
    text = await fetch(site, make())
    assert text.startswith("Error: Unreadable: ") and message in text


async def test_refuses_a_pdf_that_is_too_large(site: Site) -> None:
    text = await fetch(site, build_pdf("Long.") + b"\0" * 20_000, max_pdf_bytes=10_000)
    assert "is a PDF file of more than 10000 bytes" in text and "max_pdf_bytes" in text
    assert "Long." in await fetch(site, build_pdf("Long.") + b"\n" * 20_000, max_bytes=10_000), (
        "the other limit is for pages"
    )


def bomb() -> bytes:
    """Return a PDF page whose content decompresses to many megabytes."""
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(b" " * 1_000_000) for _ in range(200)) + packer.flush()
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>endobj\n"
        b"4 0 obj<</Filter/FlateDecode/Length "
        + str(len(packed)).encode()
        + b">>stream\n"
        + packed
        + b"\nendstream endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
    )


def circle() -> bytes:
    """Return a PDF whose pages are their own parents."""
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R]/Count 999999999>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [bomb, circle])
async def test_survives_a_malicious_pdf(site: Site, make: Callable[[], bytes]) -> None:
    body = make()
    assert len(body) < 1_000_000
    assert (await fetch(site, body)).startswith("Error: Unreadable: ")


@pytest.mark.parametrize("limits", [replace(PDF_LIMITS, wall_s=0.01), replace(PDF_LIMITS, memory_bytes=1)])
async def test_stops_a_pdf_reader_at_its_limits(limits: ReaderLimits) -> None:
    with pytest.raises(Unreadable, match="no text could be extracted"):
        async with asyncio.timeout(LIMIT_S):
            await PageReader(pdf_limits=limits).pdf(build_pdf("Hello.") + b"\n" * 20_000_000)
