"""Blocks of a Word document: headings, paragraphs, lists, tables and pictures.

It runs in the sandbox: previews.py passes its text after the text of read_package.py.
"""

import base64
import io
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from deerflow.sandbox.previews.read_package import Preview

MAX_BLOCKS = 3000
MAX_PICTURES, MAX_PICTURE_SIDE, MAX_PICTURE_BYTES = 100, 1000, 10 * 1024 * 1024
MAX_PIXELS = 40_000_000
MAX_TEXT = 20_000
EMU_PER_PIXEL = 9525
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
MACRO_DOCUMENT = "application/vnd.ms-word.document.macroEnabled.main+xml"
TEMPLATE = "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml"
OFF = ("0", "false", "none", "off")
SAFE_LINK = re.compile(r"(?:https?|mailto):", re.I)
HEADING_STYLE = re.compile(r"heading ([1-9])", re.I)
ALIGNMENTS = {"center": "center", "right": "right", "end": "right", "both": "justify"}
CONTAINERS = ("sdt", "sdtContent", "smartTag", "ins", "customXml", "fldSimple", "moveTo")
INVALID = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def preview_document(source: str) -> Preview:
    """Return the blocks of a document, up to the limits."""
    document = Document(source)
    blocks: list[Any] = []
    for block in document.blocks():
        if len(blocks) >= MAX_BLOCKS:
            return {"kind": "document", "blocks": blocks, "is_truncated": True}
        blocks.append(block)
    return {"kind": "document", "blocks": blocks, "is_truncated": False}


def shrink_picture(content: bytes, side: int) -> str | None:
    """Return a picture as a data URL of a WebP whose longer side has at most `side` pixels; None if it is unknown."""
    image: Any = import_module("PIL.Image")
    image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with image.open(io.BytesIO(content), formats=["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                return None
            picture.draft("RGB", (side, side))
            small = picture.convert("RGBA" if picture.mode in ("RGBA", "LA", "P", "PA") else "RGB")
            small.thumbnail((side, side))
            target = io.BytesIO()
            small.save(target, "WEBP", quality=75, method=0)
    except (OSError, ValueError, SyntaxError, EOFError, image.DecompressionBombError):
        return None
    return f"data:image/webp;base64,{base64.b64encode(target.getvalue()).decode()}"


def clean_text(text: str) -> str:
    """Return a text without control characters."""
    return INVALID.sub("", text)


def local(element: Any) -> str:
    """Return the name of an element without its namespace; comments have none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def is_on(properties: Any, name: str) -> bool:
    """Return whether a switch such as bold is on."""
    switch = properties.find(f"{W}{name}") if properties is not None else None
    return switch is not None and switch.get(f"{W}val", "true") not in OFF


class Document:
    """Word document that is read block by block."""

    def __init__(self, source: str) -> None:
        package = import_module("docx.package").Package
        factory = import_module("docx.opc.part").PartFactory
        part_class = import_module("docx.parts.document").DocumentPart
        for kind in (MACRO_DOCUMENT, TEMPLATE):
            factory.part_type_for[kind] = part_class
        self._part = package.open(source).main_document_part
        self._body = self._part.element.body
        self._styles = {style.style_id: style for style in self._part.styles}
        self._numbering = self._read_numbering()
        self._pictures = self._picture_bytes = 0

    def blocks(self) -> Iterator[dict[str, Any]]:
        """Yield the blocks of the document in order."""
        for element in self._flatten(self._body):
            if element.tag == f"{W}p":
                block = self._read_paragraph(element)
                if block["runs"]:
                    yield block
            elif element.tag == f"{W}tbl":
                yield {"type": "table", "rows": list(self._read_table(element))}

    def _flatten(self, parent: Any) -> Iterator[Any]:
        for child in parent:
            if local(child) in CONTAINERS:
                yield from self._flatten(child)
            else:
                yield child

    def _read_numbering(self) -> dict[str, dict[int, bool]]:
        """Return which lists are numbered, by list id and level."""
        try:
            root = self._part.numbering_part.element
        except (KeyError, NotImplementedError):
            return {}
        kinds: dict[str, dict[int, bool]] = {}
        for abstract in root.iter(f"{W}abstractNum"):
            levels = {
                int(level.get(f"{W}ilvl", "0")): is_numbered(level.find(f"{W}numFmt"))
                for level in abstract.iter(f"{W}lvl")
            }
            kinds[abstract.get(f"{W}abstractNumId", "")] = levels
        lists = {}
        for each in root.iter(f"{W}num"):
            target = each.find(f"{W}abstractNumId")
            lists[each.get(f"{W}numId", "")] = kinds.get(target.get(f"{W}val", "") if target is not None else "", {})
        return lists

    def _read_paragraph(self, paragraph: Any) -> dict[str, Any]:
        properties = paragraph.find(f"{W}pPr")
        style = self._style_chain(properties)
        name = (style[0].name or "") if style else ""
        block: dict[str, Any] = {"type": "paragraph", "runs": list(self._read_runs(paragraph))}
        level = find_heading_level(properties, style)
        listed = self._find_list(properties, style)
        if level is not None:
            block.update(type="heading", level=level)
        elif listed is not None:
            block.update(type="list", level=listed[0], is_numbered=listed[1])
        elif "quote" in name.lower():
            block["type"] = "quote"
        alignment = properties.find(f"{W}jc") if properties is not None else None
        if alignment is not None and alignment.get(f"{W}val") in ALIGNMENTS:
            block["align"] = ALIGNMENTS[alignment.get(f"{W}val")]
        if is_on(properties, "bidi"):
            block["is_rtl"] = True
        return block

    def _style_chain(self, properties: Any) -> list[Any]:
        used = properties.find(f"{W}pStyle") if properties is not None else None
        style = self._styles.get(used.get(f"{W}val")) if used is not None else None
        chain: list[Any] = []
        while style is not None and style not in chain:
            chain.append(style)
            style = getattr(style, "base_style", None)
        return chain

    def _find_list(self, properties: Any, style: list[Any]) -> tuple[int, bool] | None:
        """Return the level of a list item and whether it is numbered."""
        for each in (properties, *(one.element.find(f"{W}pPr") for one in style)):
            number = each.find(f"{W}numPr") if each is not None else None
            if number is None:
                continue
            used, level = number.find(f"{W}numId"), number.find(f"{W}ilvl")
            depth = int(level.get(f"{W}val", "0")) if level is not None else 0
            identifier = used.get(f"{W}val", "0") if used is not None else "0"
            return None if identifier == "0" else (depth, self._numbering.get(identifier, {}).get(depth, False))
        return None

    def _read_runs(self, parent: Any, link: str | None = None) -> Iterator[dict[str, Any]]:
        for child in parent:
            name = local(child)
            if name in CONTAINERS:
                yield from self._read_runs(child, link)
            elif name == "hyperlink":
                yield from self._read_runs(child, self._find_link(child))
            elif child.tag in (f"{M}oMath", f"{M}oMathPara"):
                yield {"text": clean_text("".join(each.text or "" for each in child.iter(f"{M}t")))}
            elif child.tag == f"{W}r":
                yield from self._read_run(child, link)

    def _find_link(self, element: Any) -> str | None:
        relation = self._part.rels.get(element.get(f"{R}id", ""))
        if relation is None or not relation.is_external or not SAFE_LINK.match(relation.target_ref):
            return None
        return str(relation.target_ref)

    def _read_run(self, run: Any, link: str | None) -> Iterator[dict[str, Any]]:
        look = read_look(run.find(f"{W}rPr"))
        if link is not None:
            look["href"] = link
        text = ""
        for child in run:
            name = local(child)
            if name == "t":
                text += child.text or ""
            elif name in ("tab", "ptab"):
                text += "\t"
            elif name in ("br", "cr"):
                text += "\n"
            elif name == "noBreakHyphen":
                text += "\u2011"
            elif name in ("drawing", "pict", "AlternateContent"):
                yield from self._read_pictures(child)
        if text:
            yield {"text": clean_text(text)[:MAX_TEXT], **look}

    def _read_pictures(self, drawing: Any) -> Iterator[dict[str, Any]]:
        described = next(drawing.iter(f"{WP}docPr"), None)
        extent = next(drawing.iter(f"{WP}extent"), None)
        alt = clean_text(described.get("descr") or described.get("name") or "")[:500] if described is not None else ""
        for blip in drawing.iter(f"{A}blip"):
            part = self._part.related_parts.get(blip.get(f"{R}embed", ""))
            picture = self._shrink(part.blob) if part is not None else None
            width = int(extent.get("cx", "0")) // EMU_PER_PIXEL if extent is not None else None
            yield {"text": alt, "image": picture or "", "width": width}

    def _shrink(self, content: bytes) -> str | None:
        if self._pictures >= MAX_PICTURES or self._picture_bytes >= MAX_PICTURE_BYTES:
            return None
        picture = shrink_picture(content, MAX_PICTURE_SIDE)
        self._pictures += 1
        self._picture_bytes += len(picture or "")
        return picture

    def _read_table(self, table: Any) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows; a cell that continues the one above is counted as its row span."""
        above: dict[int, dict[str, Any]] = {}
        for row in (each for each in self._flatten(table) if each.tag == f"{W}tr"):
            cells, column = [], 0
            for cell in (each for each in self._flatten(row) if each.tag == f"{W}tc"):
                span, merge = read_spans(cell.find(f"{W}tcPr"))
                if merge == "continue" and column in above:
                    above[column]["row_span"] += 1
                else:
                    above[column] = {"blocks": self._read_cell(cell), "column_span": span, "row_span": 1}
                    cells.append(above[column])
                column += span
            yield cells

    def _read_cell(self, cell: Any) -> list[dict[str, Any]]:
        blocks = [self._read_paragraph(each) for each in cell.iter(f"{W}p")]
        return [block for block in blocks if block["runs"]]


def is_numbered(kind: Any) -> bool:
    """Return whether a list level has numbers or letters."""
    return kind is not None and kind.get(f"{W}val") not in ("bullet", "none")


def read_look(properties: Any) -> dict[str, Any]:
    """Return the look of a run that is not plain."""
    names = {"b": "bold", "i": "italic", "u": "underline", "strike": "strike"}
    look: dict[str, Any] = {target: True for name, target in names.items() if is_on(properties, name)}
    raised = properties.find(f"{W}vertAlign") if properties is not None else None
    if raised is not None and raised.get(f"{W}val") in ("superscript", "subscript"):
        look["script"] = raised.get(f"{W}val")
    return look


def find_heading_level(properties: Any, style: list[Any]) -> int | None:
    """Return the level of a heading, from its style or its outline level."""
    for each in style:
        name = each.name or ""
        if found := HEADING_STYLE.fullmatch(name):
            return min(int(found[1]), 6)
        if name.lower() in ("title", "subtitle"):
            return 1 if name.lower() == "title" else 2
    for each in (properties, *(one.element.find(f"{W}pPr") for one in style)):
        outline = each.find(f"{W}outlineLvl") if each is not None else None
        if outline is not None and int(outline.get(f"{W}val", "9")) < 6:
            return int(outline.get(f"{W}val", "0")) + 1
    return None


def read_spans(properties: Any) -> tuple[int, str | None]:
    """Return the column span of a cell, and its part in a vertical merge."""
    if properties is None:
        return 1, None
    span, merge = properties.find(f"{W}gridSpan"), properties.find(f"{W}vMerge")
    columns = int(span.get(f"{W}val", "1")) if span is not None else 1
    return min(max(columns, 1), 100), merge.get(f"{W}val", "continue") if merge is not None else None
