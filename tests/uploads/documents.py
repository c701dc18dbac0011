"""Documents created with independent libraries, some of them malicious."""

import io
import random
import zipfile
from collections.abc import Callable

import docx
import openpyxl
import pptx
import pypdf
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

MB = 1024 * 1024
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def word(chapters: int = 3) -> bytes:
    """Return a report with headings, text and a table."""
    document = docx.Document()
    for number in range(1, chapters + 1):
        document.add_heading(f"Chapter {number}", 1)
        document.add_paragraph(f"What chapter {number} says.")
        document.add_heading(f"Detail {number}", 2)
        table = document.add_table(2, 2)
        for at, cell in enumerate(cell for row in table.rows for cell in row.cells):
            cell.text = f"cell {at}"
    return save_to_bytes(document.save)


def workbook(rows: int = 3) -> bytes:
    """Return a workbook with two sheets."""
    book = openpyxl.Workbook(write_only=True)
    for name in ("Sales", "Costs"):
        sheet = book.create_sheet(name)
        sheet.append(["month", "amount"])
        for number in range(rows):
            sheet.append([f"month {number}", number * 1.5])
    return save_to_bytes(book.save)


def slides() -> bytes:
    """Return two slides, one with notes."""
    show = pptx.Presentation()
    for title in ("Welcome", "Figures"):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"About {title.lower()}"
    slide.notes_slide.notes_text_frame.text = "Say it slowly."
    return save_to_bytes(show.save)


def pdf(pages: int = 3, *, bookmarks: bool = False, picture: bytes | None = None) -> bytes:
    """Return pages of text, optionally with a picture."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=A4)
    for number in range(1, pages + 1):
        if bookmarks:
            canvas.bookmarkPage(f"p{number}")
            canvas.addOutlineEntry(f"Part {number}", f"p{number}")
        for line in range(20):
            canvas.drawString(72, 780 - 20 * line, f"Page {number}, line {line}: some words about the matter.")
        if picture is not None:
            canvas.drawImage(ImageReader(io.BytesIO(picture)), 72, 72, 300, 300)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def empty_pdf() -> bytes:
    """Return a page without text."""
    file = io.BytesIO()
    canvas = Canvas(file)
    canvas.rect(10, 10, 100, 100, fill=1)
    canvas.showPage()
    canvas.save()
    return file.getvalue()


def locked_pdf() -> bytes:
    """Return an encrypted PDF."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf(1)))
    writer.encrypt("secret", algorithm="RC4-128")
    return save_to_bytes(writer.write)


def heavy_pdf(megabytes: int) -> bytes:
    """Return a PDF with a large attachment."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf(5, bookmarks=True)))
    writer.add_attachment("original.bin", random.Random(1).randbytes(megabytes * MB))
    return save_to_bytes(writer.write)


def bomb(source: bytes, member: str, megabytes: int) -> bytes:
    """Return an Office file with a zip bomb."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != member:
                new.writestr(name, old.read(name))
        with new.open(member, "w", force_zip64=True) as part:
            part.write(f'<?xml version="1.0"?><w:document xmlns:w="{W}"><w:body><w:p><w:r><w:t>'.encode())
            for _ in range(megabytes):
                part.write(b"a" * MB)
            part.write(b"</w:t></w:r></w:p></w:body></w:document>")
    return target.getvalue()


def lying_bomb(megabytes: int) -> bytes:
    """Return a zip bomb with a false size in its directory."""
    honest = bytearray(bomb(word(), "word/document.xml", megabytes))
    at = honest.rindex(b"PK\x01\x02", 0, honest.rindex(b"word/document.xml"))
    honest[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    return bytes(honest)


def billion_laughs() -> bytes:
    """Return a Word file with exponential entity expansion."""
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    xml = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY e0 "lol">{entities}]>'
    xml += f'<w:document xmlns:w="{W}"><w:body><w:p><w:r><w:t>&e9;</w:t></w:r></w:p></w:body></w:document>'
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(word())) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, xml if name == "word/document.xml" else old.read(name))
    return target.getvalue()


def book() -> bytes:
    """Return a small EPUB."""
    target = io.BytesIO()
    container = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    container += '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    package = '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
    package += "<dc:title>Deer</dc:title></metadata><manifest>"
    package += '<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
    package += '<spine><itemref idref="c"/></spine></package>'
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("book.opf", package)
        archive.writestr("c.xhtml", "<html><body><h1>In the forest</h1><p>A deer.</p></body></html>")
    return target.getvalue()


def save_to_bytes(save: Callable[[io.BytesIO], object]) -> bytes:
    """Return the output of a save function."""
    file = io.BytesIO()
    save(file)
    return file.getvalue()
