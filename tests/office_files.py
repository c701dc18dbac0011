"""Office files and archives for tests: ordinary ones of many kinds, and hostile ones."""

import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import docx
import openpyxl
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml.ns import qn
from docx.shared import Inches as DocInches
from openpyxl.chart import BarChart, Reference
from openpyxl.styles import Font
from pptx import Presentation
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.dml.color import RGBColor
from pptx.enum.chart import XL_CHART_TYPE
from pptx.enum.dml import MSO_THEME_COLOR
from pptx.enum.shapes import MSO_CONNECTOR, MSO_SHAPE
from pptx.enum.text import PP_ALIGN
from pptx.util import Inches, Pt

from tests.pictures import png

SKILLS = Path(__file__).parents[1] / "skills" / "public"
ARABIC, CHINESE = "مرحبا بالعالم، هذا عرض", "季度业绩：收入增长百分之十二"
CONTENT_TYPES = "[Content_Types].xml"


def save(document: Any) -> bytes:
    """Return the bytes of a file of python-pptx, python-docx or openpyxl."""
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def blank(deck: Any) -> Any:
    return deck.slides.add_slide(deck.slide_layouts[6])


def deck_of_layouts() -> bytes:
    deck = Presentation()
    for layout in deck.slide_layouts:
        slide = deck.slides.add_slide(layout)
        for place in slide.placeholders:
            if place.has_text_frame:
                place.text_frame.text = f"Text of {layout.name}"
    return save(deck)


def deck_of_bullets() -> bytes:
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Levels"
    frame = slide.placeholders[1].text_frame
    for level in range(5):
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = f"level {level}", level
    slide.notes_slide.notes_text_frame.text = "Say this slowly."
    return save(deck)


def deck_of_shapes() -> bytes:
    deck = Presentation()
    slide = blank(deck)
    for number, kind in enumerate(list(MSO_SHAPE)[:40]):
        left, top = Inches(0.3 + number % 8 * 1.2), Inches(0.3 + number // 8 * 1.3)
        shape = slide.shapes.add_shape(kind, left, top, Inches(1), Inches(1))
        shape.text_frame.text = str(number)
        shape.rotation = number * 9
    slide.shapes.add_connector(MSO_CONNECTOR.STRAIGHT, Inches(1), Inches(6), Inches(9), Inches(7))
    group = slide.shapes.add_group_shape()
    group.shapes.add_shape(MSO_SHAPE.OVAL, Inches(8), Inches(6), Inches(1), Inches(1))
    builder = slide.shapes.build_freeform(Inches(1), Inches(5))
    builder.add_line_segments([(Inches(2), Inches(5)), (Inches(2), Inches(6))])
    builder.convert_to_shape()
    return save(deck)


def deck_of_looks() -> bytes:
    deck = Presentation()
    slide = blank(deck)
    slide.background.fill.solid()
    slide.background.fill.fore_color.rgb = RGBColor(0x10, 0x30, 0x50)
    for number, align in enumerate((PP_ALIGN.LEFT, PP_ALIGN.CENTER, PP_ALIGN.RIGHT, PP_ALIGN.JUSTIFY)):
        box = slide.shapes.add_textbox(Inches(1), Inches(1 + number), Inches(8), Inches(1))
        run = box.text_frame.paragraphs[0].add_run()
        run.text, run.font.size, run.font.bold, run.font.italic = "Styled & <escaped>", Pt(20), True, True
        run.font.color.theme_color = MSO_THEME_COLOR.ACCENT_2
        run.font.color.brightness = 0.4
        run.hyperlink.address = "https://example.com/"
        box.text_frame.paragraphs[0].alignment = align
    shape = slide.shapes.add_shape(MSO_SHAPE.ROUNDED_RECTANGLE, Inches(1), Inches(5), Inches(4), Inches(1))
    shape.fill.gradient()
    shape.line.color.rgb = RGBColor(0xFF, 0, 0)
    return save(deck)


def deck_of_table() -> bytes:
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Table"
    table = slide.shapes.add_table(5, 4, Inches(1), Inches(2), Inches(8), Inches(3)).table
    for row in range(5):
        for column in range(4):
            table.cell(row, column).text = f"{row}/{column}"
    table.cell(1, 1).merge(table.cell(2, 2))
    return save(deck)


def deck_of_chart(kind: Any) -> Callable[[], bytes]:
    def build() -> bytes:
        deck = Presentation()
        data = CategoryChartData()
        data.categories = ["North", "South", "East", "West"]
        data.add_series("2025", (19.2, 21.4, 16.7, None))
        data.add_series("2026", (22.3, 28.6, -15.2, 9))
        area = Inches(1), Inches(1), Inches(8), Inches(5)
        chart = blank(deck).shapes.add_chart(kind, *area, data).chart
        chart.has_legend = True
        return save(deck)

    return build


def deck_of_points() -> bytes:
    deck = Presentation()
    data = XyChartData()
    series = data.add_series("measured")
    for x, y in ((0.7, 2.7), (1.8, 3.2), (2.6, 0.8)):
        series.add_data_point(x, y)
    blank(deck).shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, Inches(1), Inches(1), Inches(8), Inches(5), data)
    return save(deck)


def deck_of_pictures() -> bytes:
    deck = Presentation()
    picture = blank(deck).shapes.add_picture(io.BytesIO(png(400, 200)), Inches(1), Inches(1), Inches(6))
    picture.crop_left, picture.rotation = 0.2, 15
    slide = deck.slides.add_slide(deck.slide_layouts[8])
    slide.placeholders[1].insert_picture(io.BytesIO(png(300, 300)))
    return save(deck)


def deck_of_scripts() -> bytes:
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = CHINESE
    frame = slide.placeholders[1].text_frame
    frame.text = ARABIC
    frame.paragraphs[0]._p.get_or_add_pPr().set("rtl", "1")
    frame.add_paragraph().text = "日本語 한국어 हिन्दी 😀 \x0b second line"
    return save(deck)


def deck_of(slides: int) -> bytes:
    """Return a deck with text, a table, a chart and a picture by turns."""
    deck = Presentation()
    for number in range(slides):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = f"Slide {number + 1}"
        area = Inches(1), Inches(2), Inches(8), Inches(4)
        if number % 4 == 0:
            slide.shapes.add_textbox(*area).text_frame.text = "A paragraph of text. " * 20
        elif number % 4 == 1:
            table = slide.shapes.add_table(6, 5, *area).table
            for cell in table.iter_cells():
                cell.text = "value"
        elif number % 4 == 2:
            data = CategoryChartData()
            data.categories = list("ABCDEF")
            data.add_series("one", range(6))
            slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *area, data)
        else:
            slide.shapes.add_picture(io.BytesIO(png(1600, 900)), *area)
    return save(deck)


def text_of_styles() -> bytes:
    document = docx.Document()
    document.add_heading("Report", 0)
    for level in range(1, 7):
        document.add_heading(f"Heading {level}", level)
    paragraph = document.add_paragraph("plain ")
    for look in ("bold", "italic", "underline"):
        setattr(paragraph.add_run(f"{look} "), look, True)
    paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
    document.add_paragraph("quoted", style="Intense Quote")
    return save(document)


def text_of_lists() -> bytes:
    document = docx.Document()
    for style in ("List Bullet", "List Bullet 2", "List Number", "List Number 2"):
        for number in range(3):
            document.add_paragraph(f"{style} {number}", style=style)
    return save(document)


def text_of_tables() -> bytes:
    document = docx.Document()
    table = document.add_table(4, 3, style="Light Grid Accent 1")
    for row in range(4):
        for column in range(3):
            table.cell(row, column).text = f"{row}/{column}"
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(1, 2).merge(table.cell(3, 2))
    return save(document)


def text_of_pictures() -> bytes:
    document = docx.Document()
    document.add_paragraph("Before").add_run().add_picture(io.BytesIO(png(300, 200)), DocInches(2))
    return save(document)


def text_of_scripts() -> bytes:
    document = docx.Document()
    document.add_paragraph(CHINESE)
    paragraph = document.add_paragraph(ARABIC)
    paragraph._p.get_or_add_pPr().append(paragraph._p.makeelement(qn("w:bidi"), {}))
    return save(document)


def text_of_links() -> bytes:
    document = docx.Document()
    for target in ("https://example.com/a", "javascript:alert(1)", "file:///etc/passwd"):
        paragraph = document.add_paragraph("see ")
        kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
        relation = document.part.relate_to(target, kind, is_external=True)
        link = paragraph._p.makeelement(qn("w:hyperlink"), {qn("r:id"): relation})
        link.append(paragraph.add_run("the link")._r)
        paragraph._p.append(link)
    return save(document)


def long_text() -> bytes:
    document = docx.Document()
    for number in range(4000):
        document.add_paragraph(f"Paragraph {number}")
    return save(document)


def book_of_numbers() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Figures"
    sheet.append(["Name", "Amount", "Share", "Day", "At", "Price", "Right"])
    for number in range(30):
        day = date(2026, 1, number + 1)
        moment = datetime(2026, 1, number + 1, 12, 30)  # noqa: DTZ001  # a workbook has no time zones
        sheet.append([f"item {number}", number * 1234.5, number / 30, day, moment, number, number % 2 == 0])
        sheet.cell(number + 2, 2).number_format = "#,##0.00"
        sheet.cell(number + 2, 3).number_format = "0.0%"
        sheet.cell(number + 2, 6).number_format = '"€"0.00'
    sheet["A1"].font = Font(bold=True)
    return save(book)


def book_of_formulas() -> bytes:
    book = openpyxl.Workbook()
    book.active.append([1, 2, "=A1+B1"])
    book.active["D1"] = "=SUM(A1:C1)"
    return save(book)


def book_of_sheets() -> bytes:
    book = openpyxl.Workbook()
    for number in range(12):
        book.create_sheet(f"Sheet of {number}").append([number])
    book.worksheets[3].sheet_state = "hidden"
    return save(book)


def book_of_merged_cells() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.merge_cells("B2:D4")
    sheet["B2"], sheet["F9"] = "merged", CHINESE
    return save(book)


def book_of_chart() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    for number in range(5):
        sheet.append([number, number * number])
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=5))
    sheet.add_chart(chart, "D2")
    return save(book)


def large_book() -> bytes:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Large")
    for number in range(6000):
        sheet.append([number, f"text {number}", number / 7])
    return save(book)


def wide_book() -> bytes:
    book = openpyxl.Workbook()
    book.active.append([f"column {number}" for number in range(300)])
    return save(book)


def with_part(content: bytes, name: str, part: bytes, replaced: Mapping[str, tuple[bytes, bytes]] = {}) -> bytes:
    """Return a package with a part more, and with texts of other parts replaced."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in source.infolist():
            if member.filename != name:
                old, new = replaced.get(member.filename, (b"", b""))
                archive.writestr(member.filename, source.read(member).replace(old, new) if old else source.read(member))
        archive.writestr(name, part)
    return target.getvalue()


def with_macros(content: bytes, old: bytes, new: bytes) -> bytes:
    """Return a package with the content type of files with macros, and a macro."""
    return with_part(content, "vbaProject.bin", b"macro", {CONTENT_TYPES: (old, new)})


PRESENTATION_TYPE = b"application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
MACRO_PRESENTATION_TYPE = b"application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml"
DOCUMENT_TYPE = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
MACRO_DOCUMENT_TYPE = b"application/vnd.ms-word.document.macroEnabled.main+xml"
BOOK_TYPE = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
MACRO_BOOK_TYPE = b"application/vnd.ms-excel.sheet.macroEnabled.main+xml"


def of_skill(program: str, source: str, target: str, change: tuple[str, str] = ("", "")) -> Callable[[], bytes]:
    """Return a function that makes a file with the script of a built-in skill, from the data of its tests."""

    def build() -> bytes:
        skill = (SKILLS / program).parents[1]
        with tempfile.TemporaryDirectory() as work:
            shutil.copytree(skill / "tests" / "data", work, dirs_exist_ok=True)
            changed = Path(work, source)
            changed.write_text(changed.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
            arguments = [sys.executable, "-B", SKILLS / program, source, "--out", target]
            subprocess.run(arguments, check=True, capture_output=True, cwd=work, timeout=60)
            return Path(work, target).read_bytes()

    return build


def filled_template() -> bytes:
    """Return a Word template filled by the script of the skill."""
    template = docx.Document()
    template.add_heading("Offer for {{customer}}", 1)
    template.add_paragraph("The price is {{price}} euros.")
    with tempfile.TemporaryDirectory() as work:
        Path(work, "template.docx").write_bytes(save(template))
        Path(work, "values.json").write_text('{"customer": "Heron & Sons", "price": 4200}', encoding="utf-8")
        script = SKILLS / "document-writing/scripts/fill_docx.py"
        arguments = [sys.executable, "-B", script, "template.docx", "--values", "values.json", "--out", "filled.docx"]
        subprocess.run(arguments, check=True, capture_output=True, cwd=work, timeout=60)
        return Path(work, "filled.docx").read_bytes()


DECK_SCRIPT, TEXT_SCRIPT = "slide-creation/scripts/make_deck.py", "document-writing/scripts/make_docx.py"
CHARTS = (
    XL_CHART_TYPE.COLUMN_CLUSTERED,
    XL_CHART_TYPE.COLUMN_STACKED,
    XL_CHART_TYPE.BAR_CLUSTERED,
    XL_CHART_TYPE.LINE_MARKERS,
    XL_CHART_TYPE.PIE,
    XL_CHART_TYPE.DOUGHNUT,
    XL_CHART_TYPE.AREA,
    XL_CHART_TYPE.RADAR,
)
OFFICE_FILES: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        "layouts.pptx": deck_of_layouts,
        "bullets.pptx": deck_of_bullets,
        "shapes.pptx": deck_of_shapes,
        "looks.pptx": deck_of_looks,
        "table.pptx": deck_of_table,
        **{f"chart-{kind.name.lower()}.pptx": deck_of_chart(kind) for kind in CHARTS},
        "points.pptx": deck_of_points,
        "pictures.pptx": deck_of_pictures,
        "scripts.pptx": deck_of_scripts,
        "empty.pptx": lambda: save(Presentation()),
        "twenty.pptx": lambda: deck_of(20),
        "macros.pptm": lambda: with_macros(deck_of(1), PRESENTATION_TYPE, MACRO_PRESENTATION_TYPE),
        "skill.pptx": of_skill(DECK_SCRIPT, "outline.yaml", "deck.pptx"),
        "skill-night.pptx": of_skill(DECK_SCRIPT, "outline.yaml", "deck.pptx", ("theme: ink", "theme: night")),
        "skill-paper.pptx": of_skill(DECK_SCRIPT, "outline.yaml", "deck.pptx", ("theme: ink", "theme: paper")),
        "styles.docx": text_of_styles,
        "lists.docx": text_of_lists,
        "tables.docx": text_of_tables,
        "pictures.docx": text_of_pictures,
        "scripts.docx": text_of_scripts,
        "links.docx": text_of_links,
        "long.docx": long_text,
        "empty.docx": lambda: save(docx.Document()),
        "macros.docm": lambda: with_macros(text_of_styles(), DOCUMENT_TYPE, MACRO_DOCUMENT_TYPE),
        "skill.docx": of_skill(TEXT_SCRIPT, "offer.md", "offer.docx"),
        "skill-filled.docx": filled_template,
        "numbers.xlsx": book_of_numbers,
        "formulas.xlsx": book_of_formulas,
        "sheets.xlsx": book_of_sheets,
        "merged.xlsx": book_of_merged_cells,
        "chart.xlsx": book_of_chart,
        "large.xlsx": large_book,
        "wide.xlsx": wide_book,
        "empty.xlsx": lambda: save(openpyxl.Workbook()),
        "macros.xlsm": lambda: with_macros(book_of_numbers(), BOOK_TYPE, MACRO_BOOK_TYPE),
    }
)


def zip_of(members: Mapping[str, bytes], size: int = 0) -> bytes:
    """Return a zip file; a member of zeros with `size` bytes is added to it."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if size:
            with archive.open("zeros.xml", "w", force_zip64=True) as part:
                for _ in range(size // 2**20):
                    part.write(bytes(2**20))
    return target.getvalue()


def book_of_many_sheets() -> bytes:
    sheets = b"".join(b'<sheet name="s%d" sheetId="%d"/>' % (number, number) for number in range(10_000))
    parts = {f"xl/worksheets/sheet{number}.xml": b"<worksheet/>" for number in range(10_000)}
    return zip_of({CONTENT_TYPES: b"<Types/>", "xl/workbook.xml": b"<workbook>" + sheets + b"</workbook>", **parts})


def encrypted_zip() -> bytes:
    """Return a package whose members are marked as encrypted."""
    content = bytearray(zip_of({CONTENT_TYPES: b"<Types/>"}))
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(header) + flags] |= 1
    return bytes(content)


LAUGHS = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><x>&b;</x>'
HOSTILE_FILES: Mapping[str, tuple[Callable[[], bytes], str]] = MappingProxyType(
    {
        "bomb.pptx": (lambda: zip_of({CONTENT_TYPES: b"<Types/>"}, 300 * 2**20), "OversizedFile"),
        "laughs.docx": (lambda: with_part(text_of_lists(), "word/document.xml", LAUGHS), "UnsafeFile"),
        "laughs-16.xlsx": (
            lambda: with_part(book_of_formulas(), "xl/sharedStrings.xml", LAUGHS.decode().encode("utf-16")),
            "UnsafeFile",
        ),
        "cut.pptx": (lambda: deck_of(2)[:5000], "DamagedFile"),
        "text.xlsx": (lambda: b"not a workbook", "DamagedFile"),
        "nothing.docx": (lambda: b"", "DamagedFile"),
        "book.docx": (book_of_formulas, "DamagedFile"),
        "locked.docx": (lambda: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(2000), "EncryptedFile"),
        "locked.xlsx": (encrypted_zip, "EncryptedFile"),
        "climbing.zip": (lambda: zip_of({"../../etc/passwd": b"x"}), "UnsafeFile"),
        "climbing.pptx": (lambda: with_part(deck_of(1), "../../home/x", b"x"), "UnsafeFile"),
        "sheets.xlsx": (book_of_many_sheets, "OversizedFile"),
        "broken.pptx": (lambda: with_part(deck_of(1), "ppt/slides/slide1.xml", b"<p:sld"), "DamagedFile"),
    }
)
