"""A report as PDF: title page, contents with page numbers, bookmarks, running foot, fonts inside."""

import importlib.util
import re
from html import escape
from pathlib import Path
from typing import Any

from document import Block, Report, Span, slug
from PIL import Image as Picture
from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_CENTER, TA_RIGHT
from reportlab.lib.pagesizes import A4, LETTER
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import cm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import (
    BaseDocTemplate,
    CondPageBreak,
    Flowable,
    Frame,
    HRFlowable,
    Image,
    KeepTogether,
    ListFlowable,
    ListItem,
    LongTable,
    NextPageTemplate,
    PageBreak,
    PageTemplate,
    Paragraph,
    Preformatted,
    Spacer,
    TableStyle,
)
from reportlab.platypus.tableofcontents import TableOfContents

INK, SOFT, LINE, TINT, ACCENT = map(HexColor, ("#1c2330", "#566072", "#c9d0da", "#f4f6f9", "#0b5cad"))
ASIAN = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+")
ASIAN_FONTS = (
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/arphic/uming.ttc",
)
"""Those reportlab can take into the file; it cannot take fonts with PostScript outlines such as Noto's."""
CODE_WIDTH = 92
PAPERS = {"a4": A4, "letter": LETTER}


class Unsettable(Exception):
    """What cannot be set as PDF; the text says why."""


class Layout(BaseDocTemplate):
    """Pages with a running foot that tell the contents where headings fell."""

    def __init__(self, target: str, facts: dict[str, Any]) -> None:
        paper = PAPERS.get(str(facts.get("paper") or "a4").lower(), A4)
        self.name = str(facts.get("title") or "Report")
        author = str(facts.get("author") or "")
        super().__init__(target, pagesize=paper, title=self.name, author=author, lang=str(facts.get("lang") or "en"))
        frame = Frame(2.6 * cm, 2.4 * cm, paper[0] - 5.2 * cm, paper[1] - 4.8 * cm, 0, 0, 0, 0)
        self.addPageTemplates([PageTemplate("first", [frame]), PageTemplate("later", [frame], onPage=self.foot)])
        self.room = paper[0] - 5.2 * cm

    def foot(self, canvas: Any, _: Any) -> None:
        """Title and page number."""
        canvas.setFont("Sans", 8)
        canvas.setFillColor(SOFT)
        canvas.drawString(2.6 * cm, 1.4 * cm, self.name[:90])
        canvas.drawRightString(self.pagesize[0] - 2.6 * cm, 1.4 * cm, str(canvas.getPageNumber()))

    def afterFlowable(self, flowable: Flowable) -> None:
        """Enter a heading into contents and bookmarks."""
        entry = getattr(flowable, "entry", None)
        if entry:
            level, text, anchor = entry
            self.canv.bookmarkPage(anchor)
            self.canv.addOutlineEntry(text, anchor, level, closed=level > 0)
            if level < 2:
                self.notify("TOCEntry", (level, escape(text), self.page, anchor))


class Setter:
    """Turns blocks into what reportlab sets."""

    def __init__(self, report: Report, room: float) -> None:
        self.report, self.room = report, room
        self.styles = make_styles()

    def story(self) -> list[Flowable]:
        """Everything from title to references."""
        parts = self.title()
        parts.append(NextPageTemplate("later"))
        shown = [block for block in self.report.headings if 1 < block.level <= 3]
        if len(shown) > 2:
            contents = TableOfContents(dotsMinLevel=0)
            contents.levelStyles = [self.styles["toc1"], self.styles["toc2"]]
            parts += [Paragraph("Contents", self.styles["label"]), contents, PageBreak()]
        for block in self.report.blocks:
            parts += self.block(block)
        return parts + self.references()

    def title(self) -> list[Flowable]:
        """The head of the first page."""
        facts = self.report.facts
        parts: list[Flowable] = [
            Spacer(1, 2.2 * cm),
            Paragraph(clean(str(facts.get("title") or "Report")), self.styles["title"]),
        ]
        parts += [
            Paragraph(clean(str(facts[key])), self.styles["line"])
            for key in ("subtitle", "author", "date")
            if facts.get(key)
        ]
        parts.append(HRFlowable(width="100%", color=LINE, spaceBefore=14, spaceAfter=14))
        if facts.get("abstract"):
            parts += [Paragraph(clean(str(facts["abstract"])), self.styles["abstract"]), Spacer(1, 0.6 * cm)]
        return parts

    def block(self, block: Block, style: str = "body") -> list[Flowable]:
        """One block."""
        match block.kind:
            case "heading":
                return self.heading(block)
            case "list":
                return [self.listing(block)]
            case "quote":
                return [part for inner in block.items[0] for part in self.block(inner, "quote")]
            case "code":
                return [Preformatted(block.text, self.styles["code"], maxLineLength=CODE_WIDTH, newLineChars="")]
            case "table":
                return self.table(block)
            case "figure":
                return self.figure(block)
            case "rule":
                return [HRFlowable(width="100%", color=LINE, spaceBefore=8, spaceAfter=8)]
        return [Paragraph(self.inline(block.spans), self.styles[style])]

    def heading(self, block: Block) -> list[Flowable]:
        """A heading that stays with what follows it."""
        level = min(max(block.level, 2), 4) - 2
        number = f'<font color="#566072">{block.number}</font>&nbsp;&nbsp;' if block.number else ""
        made = Paragraph(f'<a name="{block.anchor}"/>{number}{self.inline(block.spans)}', self.styles[f"h{level + 1}"])
        made.entry = (level, f"{block.number} {block.text}".strip(), block.anchor)  # type: ignore[attr-defined]
        return [CondPageBreak(3 * cm), made]

    def listing(self, block: Block) -> ListFlowable:
        """A list, nested ones inside."""
        items = []
        for item in block.items:
            parts = [part for inner in item for part in self.block(inner, "item")]
            items.append(ListItem(parts or [Paragraph("", self.styles["item"])], leftIndent=16))
        marks = {"bulletType": "1", "bulletFormat": "%s."} if block.ordered else {"bulletType": "bullet", "start": "•"}
        return ListFlowable(items, leftIndent=16, bulletFontName="Sans", bulletFontSize=9, spaceAfter=6, **marks)

    def table(self, block: Block) -> list[Flowable]:
        """A table whose head is repeated on every page, columns as wide as their content asks for."""
        kinds = {"right": TA_RIGHT, "center": TA_CENTER}
        rows = []
        for number, row in enumerate(block.rows):
            style = self.styles["head" if number == 0 else "cell"]
            cells = [
                Paragraph(self.inline(cell), ParagraphStyle("", style, alignment=kinds.get(align, style.alignment)))
                for cell, align in zip(row, block.align, strict=False)
            ]
            rows.append(cells)
        made = LongTable(rows, colWidths=self.widths(block), repeatRows=1, hAlign="LEFT")
        made.setStyle(
            TableStyle(
                [
                    ("LINEBELOW", (0, 0), (-1, 0), 1, INK),
                    ("LINEBELOW", (0, 1), (-1, -1), 0.4, LINE),
                    ("VALIGN", (0, 0), (-1, -1), "TOP"),
                    ("LEFTPADDING", (0, 0), (-1, -1), 0),
                    ("RIGHTPADDING", (0, 0), (-1, -1), 10),
                ]
            )
        )
        anchor = f'<a name="{block.anchor}"/>'
        caption = f"{anchor}<b>{block.number}.</b> {self.inline(block.spans)}" if block.spans else anchor
        parts: list[Flowable] = [Paragraph(caption, self.styles["caption"]), made]
        return [
            Spacer(1, 6),
            KeepTogether(parts) if len(rows) <= 15 else parts[0],
            *(parts[1:] if len(rows) > 15 else []),
            Spacer(1, 12),
        ]

    def widths(self, block: Block) -> list[float]:
        """Room shared by the longest words and the amount of text in each column."""
        texts = [
            [words(row[number]) if number < len(row) else "" for row in block.rows]
            for number in range(len(block.align))
        ]
        least = [max(len(word) for text in column for word in (text.split() or [""])) * 5.4 + 12 for column in texts]
        wanted = [max(len(text) for text in column) * 4.9 + 12 for column in texts]
        if sum(wanted) <= self.room:
            return wanted if sum(wanted) < self.room * 0.7 else [width * self.room / sum(wanted) for width in wanted]
        least = [min(width, self.room / len(texts)) for width in least]
        spare, asked = self.room - sum(least), sum(w - m for w, m in zip(wanted, least, strict=True))
        return [m + spare * (w - m) / asked for w, m in zip(wanted, least, strict=True)]

    def figure(self, block: Block) -> list[Flowable]:
        """A picture no wider than the text and no higher than two thirds of a page."""
        if block.path is None:
            return []
        if block.path.suffix.lower() == ".svg":
            raise Unsettable(f"{block.path.name} is an SVG, which PDF cannot take; draw it as PNG and name that")
        with Picture.open(block.path) as picture:
            wide, high = picture.size
        scale = min(self.room / wide, 16 * cm / high, 72 / 96)
        image = Image(str(block.path), wide * scale, high * scale, hAlign="LEFT")
        text = f'<a name="{block.anchor}"/><b>{block.number}.</b> {self.inline(block.spans)}'
        return [Spacer(1, 8), KeepTogether([image, Paragraph(text, self.styles["caption"])]), Spacer(1, 8)]

    def references(self) -> list[Flowable]:
        """The cited sources."""
        listed = self.report.sources.listed()
        if not listed:
            return []
        parts = self.heading(Block("heading", [Span("text", "References")], 2, "", "references", "References"))
        for number, (key, text, link) in enumerate(listed, 1):
            url = f' <a href="{escape(link)}" color="#0b5cad">{escape(link)}</a>' if link.startswith("http") else ""
            parts.append(
                Paragraph(f'<a name="ref-{slug(key)}"/>[{number}] {clean(text)}{url}', self.styles["reference"])
            )
        return parts

    def inline(self, spans: list[Span]) -> str:
        """Runs of text in the markup of reportlab."""
        made = []
        for span in spans:
            inside = self.inline(span.inside)
            match span.kind:
                case "strong":
                    made.append(f"<b>{inside}</b>")
                case "em":
                    made.append(f"<i>{inside}</i>")
                case "strike":
                    made.append(f"<strike>{inside}</strike>")
                case "code":
                    made.append(f'<font name="Mono" size="8.6">{clean(span.text)}</font>')
                case "link":
                    made.append(f'<a href="{escape(span.target)}" color="#0b5cad">{inside}</a>')
                case "cite":
                    made.append(f'<a href="#{span.target}" color="#0b5cad">[{clean(span.text)}]</a>')
                case "ref":
                    anchor = span.target.replace(":", "-")
                    name = clean(self.report.labels.get(span.target, "?"))
                    made.append(f'<a href="#{anchor}" color="#0b5cad">{name}</a>')
                case "break":
                    made.append("<br/>")
                case _:
                    made.append(clean(span.text))
        return "".join(made)


def write_pdf(report: Report, target: Path) -> None:
    """Set the report; twice, for the contents know their pages only then."""
    register_fonts()
    layout = Layout(str(target), report.facts)
    layout.multiBuild(Setter(report, layout.room).story())


def register_fonts() -> None:
    """Fonts that come with matplotlib: they are everywhere the same and cover Latin, Greek and Cyrillic."""
    found = importlib.util.find_spec("matplotlib")
    if found is None or found.origin is None:
        raise Unsettable("the fonts for PDF come with matplotlib, which is not installed")
    folder = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"
    for name, file in (("Serif", "DejaVuSerif"), ("Sans", "DejaVuSans"), ("Mono", "DejaVuSansMono")):
        slanted = "Italic" if name == "Serif" else "Oblique"
        for variant, suffix in (("", ""), ("-Bold", "-Bold"), ("-Italic", f"-{slanted}"), ("-Both", f"-Bold{slanted}")):
            pdfmetrics.registerFont(TTFont(name + variant, str(folder / f"{file}{suffix}.ttf")))
        pdfmetrics.registerFontFamily(name, name, f"{name}-Bold", f"{name}-Italic", f"{name}-Both")
    installed = next((path for path in map(Path, ASIAN_FONTS) if path.is_file()), None)
    if installed:
        pdfmetrics.registerFont(TTFont("Asian", str(installed), subfontIndex=0))
    else:
        # Not inside the file: the reader's program brings it along.
        pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))


def make_styles() -> dict[str, ParagraphStyle]:
    """All paragraph styles."""
    body = ParagraphStyle("body", fontName="Serif", fontSize=9.8, leading=15, textColor=INK, spaceAfter=7)
    sans = ParagraphStyle("sans", body, fontName="Sans")
    bold = ParagraphStyle("bold", sans, fontName="Sans-Bold")
    return {
        "body": body,
        "item": ParagraphStyle("item", body, spaceAfter=3),
        "quote": ParagraphStyle("quote", body, leftIndent=16, textColor=SOFT, borderPadding=4),
        "abstract": ParagraphStyle("abstract", body, fontSize=10.6, leading=16.4),
        "title": ParagraphStyle("title", bold, fontSize=25, leading=30, spaceAfter=12),
        "line": ParagraphStyle("line", sans, fontSize=10, textColor=SOFT, spaceAfter=2),
        "label": ParagraphStyle("label", bold, fontSize=10, textColor=SOFT, spaceBefore=8, spaceAfter=6),
        "toc1": ParagraphStyle("toc1", sans, fontSize=9.4, leading=15, spaceAfter=0),
        "toc2": ParagraphStyle("toc2", sans, fontSize=9, leading=14, leftIndent=16, textColor=SOFT, spaceAfter=0),
        "h1": ParagraphStyle("h1", bold, fontSize=15, leading=19, spaceBefore=18, spaceAfter=7, keepWithNext=1),
        "h2": ParagraphStyle("h2", bold, fontSize=11.5, leading=15, spaceBefore=12, spaceAfter=5, keepWithNext=1),
        "h3": ParagraphStyle("h3", bold, fontSize=9.8, leading=14, spaceBefore=9, spaceAfter=4, keepWithNext=1),
        "code": ParagraphStyle("code", body, fontName="Mono", fontSize=7.8, leading=11, backColor=TINT, borderPadding=6,
                               spaceBefore=6, spaceAfter=14),
        "caption": ParagraphStyle("caption", sans, fontSize=8.4, leading=12, textColor=SOFT, spaceBefore=4),
        "head": ParagraphStyle("head", bold, fontSize=8.2, leading=11, spaceAfter=0),
        "cell": ParagraphStyle("cell", body, fontSize=8.6, leading=12, spaceAfter=0),
        "reference": ParagraphStyle("reference", body, fontSize=8.8, leading=13, leftIndent=20, firstLineIndent=-20),
    }  # fmt: skip


def clean(text: str) -> str:
    """Text that is no markup, Chinese and its neighbours in a font that has them."""
    font = "Asian" if "Asian" in pdfmetrics.getRegisteredFontNames() else "STSong-Light"
    return ASIAN.sub(lambda match: f'<font name="{font}">{match[0]}</font>', escape(text))


def words(spans: list[Span]) -> str:
    """The bare text of a cell."""
    return "".join(span.text + words(span.inside) for span in spans)
