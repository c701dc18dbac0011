"""A report as blocks: headings, paragraphs, lists, tables, figures, code; read from Markdown."""

import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from sources import CITATION, Sources

LABEL = re.compile(r"\s*\{#((?:fig|tbl|sec):[\w-]+)\}\s*$")
REFERENCE = re.compile(r"@((?:fig|tbl|sec):[\w-]+)")
CAPTION = re.compile(r"Table:\s+")
SAFE = ("https:", "http:", "mailto:", "#")


@dataclass
class Span:
    """A run of text of one kind: text, strong, em, code, link, cite, ref, break, strike."""

    kind: str
    text: str = ""
    target: str = ""
    inside: list["Span"] = field(default_factory=list)


@dataclass
class Block:
    """One part of a report. Which fields count depends on `kind`."""

    kind: str
    spans: list[Span] = field(default_factory=list)
    level: int = 0
    number: str = ""
    anchor: str = ""
    text: str = ""
    path: Path | None = None
    ordered: bool = False
    items: list[list["Block"]] = field(default_factory=list)
    rows: list[list[list[Span]]] = field(default_factory=list)
    align: list[str] = field(default_factory=list)


@dataclass
class Report:
    """A whole report."""

    facts: dict[str, Any]
    blocks: list[Block]
    sources: Sources
    labels: dict[str, str]
    missing: list[str]

    @property
    def headings(self) -> list[Block]:
        """Headings in their order."""
        return [block for block in self.blocks if block.kind == "heading"]


class Reader:
    """Turns Markdown into blocks, numbering what is numbered."""

    def __init__(self, base: Path, sources: Sources, numbered: bool) -> None:
        self.base, self.sources, self.numbered = base, sources, numbered
        self.counts = {"figure": 0, "table": 0}
        self.sections = [0] * 6
        self.labels: dict[str, str] = {}
        self.missing: list[str] = []
        self.anchors: set[str] = set()

    def blocks(self, nodes: list[SyntaxTreeNode]) -> list[Block]:
        """Blocks of the nodes; a paragraph `Table: …` before or after a table is its caption."""
        made: list[Block] = []
        for node in nodes:
            block = self.block(node)
            if block is None:
                continue
            previous = made[-1] if made else None
            if block.kind == "table" and previous and previous.kind == "caption":
                made[-1] = self.captioned(block, previous)
            elif block.kind == "caption" and previous and previous.kind == "table" and not previous.spans:
                made[-1] = self.captioned(previous, block)
            else:
                made.append(block)
        for block in made:
            if block.kind == "caption":
                block.kind = "paragraph"
        return made

    def block(self, node: SyntaxTreeNode) -> Block | None:
        """One block."""
        match node.type:
            case "heading":
                return self.heading(node)
            case "paragraph":
                return self.paragraph(node)
            case "bullet_list" | "ordered_list":
                items = [self.blocks(item.children) for item in node.children]
                return Block("list", ordered=node.type == "ordered_list", items=items)
            case "blockquote":
                return Block("quote", items=[self.blocks(node.children)])
            case "fence" | "code_block":
                return Block("code", text=node.content.rstrip("\n"))
            case "table":
                return self.table(node)
            case "hr":
                return Block("rule")
        return None

    def heading(self, node: SyntaxTreeNode) -> Block:
        """A heading with its number and anchor."""
        level, inline = int(node.tag[1]), node.children[0]
        label, text = without_label(inline)
        number = ""
        if self.numbered and 1 < level < 5:
            self.sections[level - 2] += 1
            self.sections[level - 1 :] = [0] * (len(self.sections) - level + 1)
            number = ".".join(str(count) for count in self.sections[: level - 1])
        anchor = self.unused(slug(text))
        if label:
            self.labels[label] = f"Section {number or text}"
            anchor = self.unused(label.replace(":", "-"))
        return Block("heading", spans=self.inline(inline), level=level, number=number, anchor=anchor, text=text)

    def paragraph(self, node: SyntaxTreeNode) -> Block:
        """A paragraph, or the figure it consists of, or the caption of a table."""
        inline = node.children[0]
        inside = inline.children or []
        images = [child for child in inside if child.type == "image"]
        rest = "".join(child.content for child in inside if child.type == "text")
        if len(images) == 1 and not LABEL.sub("", rest).strip() and len(inside) <= 2:
            return self.figure(images[0], rest)
        if CAPTION.match(inline.content):
            label, _ = without_label(inline)
            spans = self.inline(inline)
            spans[0].text = CAPTION.sub("", spans[0].text, count=1)
            return Block("caption", spans=spans, anchor=label)
        return Block("paragraph", spans=self.inline(inline))

    def figure(self, image: SyntaxTreeNode, rest: str) -> Block:
        """A picture with its number; a missing one is remembered."""
        self.counts["figure"] += 1
        number = f"Figure {self.counts['figure']}"
        label = LABEL.search(rest)
        if label:
            self.labels[label[1]] = number
        path = self.picture(str(image.attrs.get("src", "")))
        caption = str(image.attrs.get("title") or "") or image.content
        spans = [Span("text", caption)] if image.attrs.get("title") else self.spans(image.children or [])
        anchor = label[1].replace(":", "-") if label else f"figure-{self.counts['figure']}"
        return Block("figure", spans=spans, number=number, path=path, text=image.content, anchor=anchor)

    def picture(self, source: str) -> Path | None:
        """The file of a picture."""
        path = self.base / source
        if source.startswith(("http:", "https:", "data:")) or not path.is_file():
            self.missing.append(source)
            return None
        return path

    def table(self, node: SyntaxTreeNode) -> Block:
        """A table, its first row the head."""
        cells = [row.children for part in node.children for row in part.children]
        align = [str(cell.attrs.get("style", "")).removeprefix("text-align:") or "left" for cell in cells[0]]
        rows = [[self.inline(cell.children[0]) if cell.children else [] for cell in row] for row in cells]
        self.counts["table"] += 1
        number = f"Table {self.counts['table']}"
        return Block("table", rows=rows, align=align, number=number, anchor=f"table-{self.counts['table']}")

    def captioned(self, table: Block, caption: Block) -> Block:
        """The table with its caption."""
        table.spans = caption.spans
        if caption.anchor:
            self.labels[caption.anchor] = table.number
            table.anchor = caption.anchor.replace(":", "-")
        return table

    def inline(self, node: SyntaxTreeNode) -> list[Span]:
        """Text of a block, without the label at its end."""
        spans = self.spans(node.children or [])
        if spans and spans[-1].kind == "text":
            spans[-1].text = LABEL.sub("", spans[-1].text)
        return spans

    def spans(self, nodes: list[SyntaxTreeNode]) -> list[Span]:
        """Runs of text."""
        made: list[Span] = []
        for node in nodes:
            match node.type:
                case "text":
                    made += self.cited(node.content)
                case "strong" | "em" | "s":
                    kind = "strike" if node.type == "s" else node.type
                    made.append(Span(kind, inside=self.spans(node.children)))
                case "code_inline":
                    made.append(Span("code", node.content))
                case "softbreak":
                    made.append(Span("text", " "))
                case "hardbreak":
                    made.append(Span("break"))
                case "link":
                    target = str(node.attrs.get("href", ""))
                    inside = self.spans(node.children)
                    made += [Span("link", target=target, inside=inside)] if target.startswith(SAFE) else inside
                case "image":
                    self.missing.append(
                        f"{node.attrs.get('src')} (a picture inside a line; give it a paragraph of its own)"
                    )
        return made

    def cited(self, text: str) -> list[Span]:
        """Text with its citations and cross references made out."""
        made, place = [], 0
        for match in CITATION.finditer(text):
            made += referring(text[place : match.start()])
            for number, (key, count, where) in enumerate(self.sources.cite(match[1])):
                made.append(Span("text", " " if number else ""))
                made.append(Span("cite", f"{count}{f', {where}' if where else ''}", target=f"ref-{slug(key)}"))
            place = match.end()
        return made + referring(text[place:])

    def unused(self, anchor: str) -> str:
        """An anchor nobody has yet."""
        number, free = 2, anchor
        while free in self.anchors:
            free, number = f"{anchor}-{number}", number + 1
        self.anchors.add(free)
        return free


def read_report(text: str, base: Path, sources: Sources, facts: dict[str, Any]) -> Report:
    """A report from the text after its front matter."""
    parser = MarkdownIt("commonmark", {"html": False, "typographer": True}).enable(["table", "strikethrough"])
    parser.enable(["replacements", "smartquotes"])
    reader = Reader(base, sources, bool(facts.get("numbered", True)))
    blocks = reader.blocks(SyntaxTreeNode(parser.parse(text)).children)
    return Report(facts, blocks, sources, reader.labels, reader.missing)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Facts about the report, and its text.

    Raises:
        ValueError: The front matter is no YAML mapping.
    """
    if not text.startswith("---\n"):
        return {}, text
    head, end, body = text[4:].partition("\n---\n")
    if not end:
        raise ValueError("the front matter has no end: a line of three hyphens is missing")
    try:
        facts = yaml.safe_load(head) or {}
    except yaml.YAMLError as problem:
        raise ValueError(f"the front matter is no YAML: {' '.join(str(problem).split())}") from None
    if not isinstance(facts, dict):
        raise ValueError("the front matter must consist of keys and values")
    return facts, body


def referring(text: str) -> list[Span]:
    """Text with references to figures, tables and sections made out."""
    made, place = [], 0
    for match in REFERENCE.finditer(text):
        made += [Span("text", text[place : match.start()]), Span("ref", target=match[1])]
        place = match.end()
    return [span for span in [*made, Span("text", text[place:])] if span.kind != "text" or span.text]


def without_label(inline: SyntaxTreeNode) -> tuple[str, str]:
    """The label at the end of a line, and the line without it."""
    label = LABEL.search(inline.content)
    return (label[1] if label else ""), LABEL.sub("", inline.content).strip()


def slug(text: str) -> str:
    """Text as an anchor."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return re.sub(r"[^\w]+", "-", plain).strip("-") or "section"


def plain(spans: list[Span]) -> str:
    """The bare words."""
    return "".join(span.text + plain(span.inside) for span in spans)
