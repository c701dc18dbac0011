"""Writes a Word document from Markdown, with real styles, contents, captions, page numbers and alternative texts."""

import argparse
import difflib
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

import docx
import yaml
from docx.document import Document
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.image.exceptions import UnrecognizedImageError
from docx.opc.exceptions import PackageNotFoundError
from docx.oxml.ns import qn
from docx.shared import Cm, Pt, RGBColor
from docx.text.paragraph import Paragraph
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from word import add_contents, add_field, add_link, describe, new_numbering, number_with, repeat_head, shade

KEYS = (
    "title",
    "subtitle",
    "author",
    "date",
    "contents",
    "levels",
    "paper",
    "font",
    "size",
    "header",
    "numbers",
    "language",
)
PAPERS = {"a4": (21.0, 29.7), "letter": (21.59, 27.94)}
CAPTION = re.compile(r"Table:\s+")
EMPHASIS = {"strong": "bold", "em": "italic", "s": "strike"}
SAFE = ("https:", "http:", "mailto:")
INK = RGBColor(0x1C, 0x23, 0x30)
SOFT = RGBColor(0x56, 0x60, 0x72)


class Writer:
    """Puts the nodes of a Markdown text into a document."""

    def __init__(self, document: Document, base: Path) -> None:
        self.document, self.base = document, base
        self.captions = {"Figure": 0, "Table": 0}
        self.table_caption = ""
        self.on_new_page = False

    def write(self, nodes: list[SyntaxTreeNode], style: str | None = None, level: int = 0) -> None:
        """Blocks in their order."""
        for node in nodes:
            match node.type:
                case "heading":
                    heading = self.document.add_heading(level=min(int(node.tag[1]), 9))
                    heading.paragraph_format.page_break_before, self.on_new_page = self.on_new_page or None, False
                    self.inline(heading, node.children[0])
                case "paragraph":
                    self.paragraph(node.children[0], style)
                case "bullet_list" | "ordered_list":
                    self.listing(node, level)
                case "blockquote":
                    self.write(node.children, "Quote")
                case "fence" | "code_block":
                    self.code(node.content.rstrip("\n"))
                case "table":
                    self.table(node)
                case "hr":
                    self.on_new_page = True

    def paragraph(self, inline: SyntaxTreeNode, style: str | None) -> None:
        """A paragraph, or the picture it consists of, or what becomes the caption of the next table."""
        inside = inline.children or []
        if len(inside) == 1 and inside[0].type == "image":
            self.picture(inside[0])
        elif CAPTION.match(inline.content):
            self.table_caption = CAPTION.sub("", inline.content)
        else:
            made = self.document.add_paragraph(style=style)
            made.paragraph_format.page_break_before, self.on_new_page = self.on_new_page or None, False
            self.inline(made, inline)

    def listing(self, node: SyntaxTreeNode, level: int) -> None:
        """A list; numbered ones begin at 1 each time, nested ones are set in."""
        ordered = node.type == "ordered_list"
        name = "List Number" if ordered else "List Bullet"
        numbering = new_numbering(self.document) if ordered else ""
        style = f"{name} {min(level + 1, 3)}" if level else name
        for item in node.children:
            first = True
            for part in item.children:
                if part.type == "paragraph":
                    paragraph = self.document.add_paragraph(style=style if first else "List Continue")
                    self.inline(paragraph, part.children[0])
                    if ordered and first and not level:
                        number_with(paragraph, numbering)
                    first = False
                else:
                    self.write([part], level=level + 1)

    def table(self, node: SyntaxTreeNode) -> None:
        """A table with its caption above and its head on every page."""
        rows = [row.children for part in node.children for row in part.children]
        if self.table_caption:
            self.caption("Table", self.table_caption, keep=True)
            self.table_caption = ""
        table = self.document.add_table(len(rows), len(rows[0]), style="Table Grid")
        table.style = "Light List Accent 1" if "Light List Accent 1" in self.document.styles else "Table Grid"
        for number, row in enumerate(rows):
            for column, cell in enumerate(row[: len(rows[0])]):
                paragraph = table.cell(number, column).paragraphs[0]
                paragraph.paragraph_format.space_after = Pt(2)
                if cell.children:
                    self.inline(paragraph, cell.children[0])
                if "right" in str(cell.attrs.get("style", "")):
                    paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT
                if number < 3:
                    paragraph.paragraph_format.keep_with_next = True
        repeat_head(table)
        self.document.add_paragraph().paragraph_format.space_after = Pt(4)

    def picture(self, node: SyntaxTreeNode) -> None:
        """A picture no wider than the text, its caption below."""
        path = self.base / str(node.attrs.get("src", ""))
        if not path.is_file():
            fail(f"there is no picture {str(node.attrs.get('src'))!r}; pictures must lie beside the text")
        if not node.content.strip():
            fail(f"the picture {path.name} has no text in its brackets; say what it shows")
        section = self.document.sections[-1]
        room = section.page_width - section.left_margin - section.right_margin  # type: ignore[operator]
        paragraph = self.document.add_paragraph()
        paragraph.paragraph_format.keep_with_next = True
        run = paragraph.add_run()
        try:
            shape = run.add_picture(str(path))
        except UnrecognizedImageError:
            fail(f"{path.name} is no picture Word takes; use PNG or JPEG")
        if shape.width > room:
            shape.height, shape.width = int(shape.height * room / shape.width), int(room)
        describe(run, node.content)
        self.caption("Figure", str(node.attrs.get("title") or node.content))

    def caption(self, kind: str, text: str, keep: bool = False) -> None:
        """A numbered caption that Word counts itself."""
        self.captions[kind] += 1
        paragraph = self.document.add_paragraph(style="Caption")
        paragraph.add_run(f"{kind} ")
        add_field(paragraph, f"SEQ {kind} \\* ARABIC", str(self.captions[kind]))
        paragraph.add_run(f". {text}")
        paragraph.paragraph_format.keep_with_next = keep

    def code(self, text: str) -> None:
        """Program text, each line as it is."""
        paragraph = self.document.add_paragraph()
        shade(paragraph, "F4F6F9")
        for number, line in enumerate(text.split("\n")):
            run = paragraph.add_run(line)
            run.font.name, run.font.size = "Consolas", Pt(9)
            if number < text.count("\n"):
                run.add_break()

    def inline(self, paragraph: Paragraph, node: SyntaxTreeNode, **look: bool) -> None:
        """Runs of text with their emphasis."""
        for child in node.children or []:
            if child.type in EMPHASIS:
                self.inline(paragraph, child, **{**look, EMPHASIS[child.type]: True})
            elif child.type in {"text", "code_inline", "softbreak"}:
                run = paragraph.add_run(child.content or " ")
                run.bold, run.italic, run.font.strike = look.get("bold"), look.get("italic"), look.get("strike")
                if child.type == "code_inline":
                    run.font.name = "Consolas"
            elif child.type == "hardbreak":
                paragraph.add_run().add_break()
            elif child.type == "link":
                self.link(paragraph, child)
            elif child.type == "image":
                fail("a picture stands inside a line; give it a paragraph of its own")

    def link(self, paragraph: Paragraph, node: SyntaxTreeNode) -> None:
        """A link, or its words alone where the address is none."""
        words = "".join(child.content for child in node.children or [])
        address = str(node.attrs.get("href", ""))
        if address.startswith(SAFE):
            add_link(paragraph, address, words)
        else:
            paragraph.add_run(words)


def main() -> None:
    """Read the command line and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="text in Markdown, with facts in its front matter")
    parser.add_argument("--out", type=Path, required=True, help="the document, .docx")
    parser.add_argument("--template", type=Path, help="a .docx whose styles, margins, head and foot are used")
    arguments = parser.parse_args()
    if arguments.out.suffix.lower() != ".docx":
        fail(f"documents are written as .docx, not as {arguments.out.suffix or 'a file without an ending'!r}")
    facts, text = read(arguments.source)
    document = opened(arguments.template)
    if arguments.template is None:
        dress(document, facts)
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    nodes = SyntaxTreeNode(parser.parse(text)).children
    open_document(document, facts, nodes)
    writer = Writer(document, arguments.source.parent)
    writer.on_new_page = bool(facts.get("contents"))
    writer.write(nodes)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    document.save(str(arguments.out))
    headings = sum(node.type == "heading" for node in nodes)
    tables, figures = writer.captions["Table"], writer.captions["Figure"]
    print(f"{arguments.out}: {many(headings, 'heading')}, {many(tables, 'captioned table')}, {many(figures, 'figure')}")


def many(count: int, name: str) -> str:
    """A count with its noun."""
    return f"{count} {name}{'' if count == 1 else 's'}"


def read(path: Path) -> tuple[dict[str, Any], str]:
    """Facts and text."""
    if not path.is_file():
        fail(f"there is no file {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        fail(f"{path.name} is not UTF-8 text")
    facts: Any = {}
    if text.startswith("---\n"):
        head, end, text = text[4:].partition("\n---\n")
        try:
            facts = yaml.safe_load(head) if end else None
        except yaml.YAMLError as problem:
            fail(f"the front matter of {path.name} is no YAML: {' '.join(str(problem).split())}")
        if not isinstance(facts, dict):
            fail(f"the front matter of {path.name} must be keys and values between two lines of three hyphens")
    for key in facts:
        if key not in KEYS:
            near = difflib.get_close_matches(str(key), KEYS, n=1)
            fail(
                f"the front matter has no key {key!r}; "
                + (f"did you mean {near[0]!r}?" if near else f"it has {', '.join(KEYS)}")
            )
    if not text.strip():
        fail(f"{path.name} has no text")
    return facts, text


def opened(template: Path | None) -> Document:
    """An empty document, from a template if there is one."""
    if template is None:
        return docx.Document()
    try:
        document = docx.Document(str(template))
    except (PackageNotFoundError, KeyError, ValueError):
        fail(f"{template.name} is no Word document")
    for child in list(document.element.body):
        if not child.tag.endswith("}sectPr"):
            document.element.body.remove(child)
    return document


def dress(document: Document, facts: dict[str, Any]) -> None:
    """Paper, margins, fonts and colours of a plain, good-looking document, with page numbers."""
    section = document.sections[0]
    wide, high = PAPERS.get(str(facts.get("paper") or "a4").lower(), PAPERS["a4"])
    section.page_width, section.page_height = Cm(wide), Cm(high)
    section.left_margin = section.right_margin = Cm(2.5)
    section.top_margin, section.bottom_margin = Cm(2.5), Cm(2.3)
    font, size = str(facts.get("font") or "Calibri"), float(facts.get("size") or 11)
    normal = document.styles["Normal"]
    normal.font.name, normal.font.size = font, Pt(size)
    normal.element.get_or_add_rPr().get_or_add_rFonts().set(qn("w:eastAsia"), font)
    normal.paragraph_format.space_after, normal.paragraph_format.line_spacing = Pt(8), 1.15
    for name, points, before in (("Title", 28, 0), ("Heading 1", 18, 20), ("Heading 2", 14, 14), ("Heading 3", 12, 10)):
        style = document.styles[name]
        style.font.name, style.font.size, style.font.bold, style.font.color.rgb = font, Pt(points), True, INK
        fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
        for attribute in ("asciiTheme", "hAnsiTheme", "eastAsiaTheme", "cstheme"):
            fonts.attrib.pop(qn(f"w:{attribute}"), None)
        style.paragraph_format.space_before, style.paragraph_format.space_after = Pt(before), Pt(5)
    subtitle = document.styles["Subtitle"]
    subtitle.font.size, subtitle.font.italic, subtitle.font.color.rgb = Pt(12), False, SOFT
    caption = document.styles["Caption"]
    caption.font.size, caption.font.bold, caption.font.color.rgb = Pt(9), False, SOFT
    if facts.get("header"):
        section.header.paragraphs[0].text = str(facts["header"])
    foot = section.footer.paragraphs[0]
    foot.alignment = WD_ALIGN_PARAGRAPH.RIGHT
    add_field(foot, "PAGE", "1")
    foot.add_run(" / ")
    add_field(foot, "NUMPAGES", "1")


def open_document(document: Document, facts: dict[str, Any], nodes: list[SyntaxTreeNode]) -> None:
    """Properties, title and contents."""
    properties = document.core_properties
    properties.title, properties.author = str(facts.get("title") or ""), str(facts.get("author") or "")
    properties.language = str(facts.get("language") or "en")
    if facts.get("title"):
        document.add_paragraph(str(facts["title"]), style="Title")
    line = " · ".join(str(facts[key]) for key in ("subtitle", "author", "date") if facts.get(key))
    if line:
        document.add_paragraph(line, style="Subtitle")
    if facts.get("contents"):
        headings = [(int(node.tag[1]), node.children[0].content) for node in nodes if node.type == "heading"]
        add_contents(document, int(facts.get("levels") or 2), headings)


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
