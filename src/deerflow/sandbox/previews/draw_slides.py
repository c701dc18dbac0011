"""Slides of a presentation as SVG pictures, with their notes.

It runs in the sandbox: previews.py passes its text after the texts of the modules that it imports. Text is XHTML inside
the SVG, so that the browser breaks lines, shapes scripts and chooses fonts; the sandbox has few fonts.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from deerflow.sandbox.previews.draw_charts import Box, draw_chart
from deerflow.sandbox.previews.draw_shapes import (
    Frame,
    bounded,
    child,
    draw_geometry,
    draw_html,
    draw_label,
    draw_rectangle,
    enter_group,
    find_placeholder,
    flip,
    is_hidden,
    place_box,
    read_span,
    rotate,
)
from deerflow.sandbox.previews.read_document import A, R, clean_text, shrink_picture
from deerflow.sandbox.previews.read_package import Preview
from deerflow.sandbox.previews.slide_text import (
    ANCHORS,
    EMU,
    TITLES,
    P,
    TextStyles,
    Theme,
    css_color,
    draw_text,
    local_tag,
    read_color,
    read_texts,
    read_theme,
)

MAX_SLIDES, MAX_SHAPES, MAX_DEPTH = 200, 2000, 8
DRAWING_S = 12.0
MAX_PICTURE_SIDE, MAX_EMBEDDED = 1024, 12 * 1024 * 1024
MAX_SLIDE_TEXT = 5000
XHTML = "http://www.w3.org/1999/xhtml"
MACRO_PRESENTATION = "application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml"
PRESENTATION = "application/vnd.openxmlformats-officedocument.presentationml.{}.main+xml"
PLAIN_TABLES = ("{2D5ABB26-0587-4C30-8999-92F81FD0307C}", "{5940675A-B579-460E-94D1-54222C63F5DA}")
DASHES = {"dash": "8 6", "lgDash": "14 6", "sysDash": "5 3", "dot": "2 3", "sysDot": "2 2", "dashDot": "8 4 2 4"}


def preview_slides(source: str) -> Preview:
    """Return the slides of a presentation, up to the limits of number and time."""
    package = import_module("pptx.package").Package
    factory = import_module("pptx.opc.package").PartFactory
    part_class = import_module("pptx.parts.presentation").PresentationPart
    for kind in (MACRO_PRESENTATION, *(PRESENTATION.format(each) for each in ("slideshow", "template"))):
        factory.part_type_for[kind] = part_class
    deck = package.open(source).main_document_part.presentation
    width, height = (deck.slide_width or 9_144_000) / EMU, (deck.slide_height or 6_858_000) / EMU
    deadline = time.monotonic() + DRAWING_S
    pictures: dict[str, str | None] = {}
    slides: list[Any] = []
    for number, slide in enumerate(deck.slides, 1):
        if number > MAX_SLIDES or time.monotonic() > deadline:
            break
        drawing = Drawing(deck, slide, number, pictures)
        title = slide.shapes.title
        slides.append(
            {
                "title": clean_text(title.text_frame.text if title is not None and title.has_text_frame else "")[:300],
                "text": "\n".join(text for text in read_texts(slide.element) if text)[:MAX_SLIDE_TEXT],
                "notes": read_notes(slide),
                "is_hidden": slide.element.get("show") == "0",
                "svg": drawing.draw(width, height),
            }
        )
    return {"kind": "slides", "width": width, "height": height, "total": len(deck.slides), "slides": slides}


def read_notes(slide: Any) -> str:
    """Return the notes of a slide."""
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    return clean_text(frame.text)[:MAX_SLIDE_TEXT] if frame is not None else ""


class Drawing:
    """Drawing of one slide."""

    def __init__(self, deck: Any, slide: Any, number: int, pictures: dict[str, str | None]) -> None:
        self._deck = deck
        self._slide = slide
        self._layout = slide.slide_layout
        self._master = self._layout.slide_master
        self._theme: Theme = read_theme(self._master)
        self._number = number
        self._pictures = pictures
        self._definitions: list[str] = []
        self._shapes_left = MAX_SHAPES

    def draw(self, width: float, height: float) -> str:
        """Return the slide as SVG."""
        page = Box(0, 0, width, height)
        parts = [self._draw_background(page)]
        if self._slide.element.get("showMasterSp") != "0":
            if self._layout.element.get("showMasterSp") != "0":
                parts += self._draw_tree(self._master, is_background=True)
            parts += self._draw_tree(self._layout, is_background=True)
        parts += self._draw_tree(self._slide, is_background=False)
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.1f} {height:.1f}"'
        definitions = f"<defs>{''.join(self._definitions)}</defs>"
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{definitions}{"".join(parts)}</svg>'

    def _draw_background(self, page: Box) -> str:
        for owner in (self._slide, self._layout, self._master):
            background = owner.element.find(f"{P}cSld/{P}bg")
            if background is None or len(background) == 0:
                continue
            inner = background[0]
            color = css_color(inner, self._theme) if local_tag(inner) == "bgRef" else None
            fill = color or self._read_fill(inner, owner.part)
            if fill not in (None, "none"):
                return draw_rectangle(page, f'fill="{fill}"')
        return draw_rectangle(page, f'fill="#{self._theme.resolve("bg1")}"')

    def _draw_tree(self, owner: Any, is_background: bool) -> list[str]:
        tree = owner.element.find(f"{P}cSld/{P}spTree")
        return list(self._draw_shapes(tree, owner, Frame(), is_background)) if tree is not None else []

    def _draw_shapes(self, tree: Any, owner: Any, frame: Frame, is_background: bool, depth: int = 0) -> Iterator[str]:
        for element in tree:
            if self._shapes_left <= 0 or depth > MAX_DEPTH:
                return
            self._shapes_left -= 1
            kind = local_tag(element)
            if is_hidden(element) or (is_background and element.find(f".//{P}nvPr/{P}ph") is not None):
                continue
            if kind == "grpSp":
                yield from self._draw_shapes(element, owner, enter_group(element, frame), is_background, depth + 1)
            elif kind in ("sp", "cxnSp"):
                yield self._draw_shape(element, owner, frame)
            elif kind == "pic":
                yield self._draw_picture(element, owner, frame)
            elif kind == "graphicFrame":
                yield self._draw_frame(element, owner, frame)

    def _inherited(self, element: Any) -> list[Any]:
        """Return the shape and the placeholders that it inherits from."""
        place = element.find(f".//{P}nvPr/{P}ph")
        chain = [element]
        if place is None:
            return chain
        kind, index = place.get("type"), place.get("idx", "0")
        for owner in (self._layout, self._master):
            found = find_placeholder(owner, kind, index if owner is self._layout else None)
            if found is not None:
                chain.append(found)
                kind = found.find(f".//{P}nvPr/{P}ph").get("type", kind)
        return chain

    def _draw_shape(self, element: Any, owner: Any, frame: Frame) -> str:
        chain = self._inherited(element)
        properties = [each.find(f"{P}spPr") for each in chain]
        transform = next((found for each in properties if (found := child(each, "xfrm")) is not None), None)
        if transform is None:
            return ""
        box = frame.place(transform)
        geometry = next((each for each in properties if child(each, "prstGeom", "custGeom") is not None), None)
        fills = (fill for each in properties if (fill := self._read_fill(each, owner.part)) is not None)
        fill = next(fills, None) or self._read_reference(element, "fillRef") or "none"
        shape = draw_geometry(geometry, box, f'fill="{fill}" {self._read_line(element, properties)}')
        is_flipped = (transform.get("flipH") == "1", transform.get("flipV") == "1")
        text = self._draw_body(element, chain, box)
        return rotate(flip(shape, box, *is_flipped) + text, transform, box)

    def _read_fill(self, properties: Any, part: Any) -> str | None:
        """Return the fill of a shape for SVG; None if it is inherited."""
        fill = child(properties, "noFill", "solidFill", "gradFill", "pattFill", "blipFill")
        if fill is None:
            return None
        kind = local_tag(fill)
        if kind == "solidFill":
            return css_color(fill, self._theme)
        if kind == "gradFill":
            return self._define_gradient(fill)
        if kind == "pattFill":
            return css_color(fill.find(f"{A}fgClr"), self._theme)
        if kind == "blipFill" and (picture := self._embed(fill, part)):
            name = f"p{len(self._definitions)}"
            image = f'<image href="{picture}" width="1" height="1" preserveAspectRatio="none"/>'
            box = 'width="1" height="1" patternContentUnits="objectBoundingBox"'
            self._definitions.append(f'<pattern id="{name}" {box}>{image}</pattern>')
            return f"url(#{name})"
        return "none"

    def _define_gradient(self, fill: Any) -> str | None:
        stops = []
        for stop in fill.iter(f"{A}gs"):
            color, opacity = read_color(stop, self._theme) or ("#FFFFFF", 1.0)
            offset = int(stop.get("pos", "0")) / 1000
            stops.append(f'<stop offset="{offset:g}%" stop-color="{color}" stop-opacity="{opacity:.2f}"/>')
        if not stops:
            return None
        name = f"g{len(self._definitions)}"
        linear = fill.find(f"{A}lin")
        angle = math.radians(int(linear.get("ang", "0")) / 60_000 if linear is not None else 90)
        x, y = math.cos(angle) / 2, math.sin(angle) / 2
        ends = f'x1="{0.5 - x:.3f}" y1="{0.5 - y:.3f}" x2="{0.5 + x:.3f}" y2="{0.5 + y:.3f}"'
        self._definitions.append(f'<linearGradient id="{name}" {ends}>{"".join(stops)}</linearGradient>')
        return f"url(#{name})"

    def _read_reference(self, element: Any, name: str) -> str | None:
        reference = element.find(f"{P}style/{A}{name}")
        if reference is None or reference.get("idx") == "0":
            return None
        return css_color(reference, self._theme)

    def _read_line(self, element: Any, properties: Sequence[Any]) -> str:
        line = next((found for each in properties if (found := child(each, "ln")) is not None), None)
        color = css_color(child(line, "solidFill"), self._theme)
        if line is not None and child(line, "noFill") is not None:
            return ""
        color = color or self._read_reference(element, "lnRef")
        if color is None:
            return ""
        width = max(int(line.get("w", "9525")) if line is not None else 9525, 3175) / EMU
        dash = child(line, "prstDash")
        dashed = DASHES.get(dash.get("val", "")) if dash is not None else None
        arrow = self._define_arrow(line, color)
        pattern = f' stroke-dasharray="{dashed}"' if dashed else ""
        return f'stroke="{color}" stroke-width="{width:.2f}"{pattern}{arrow}'

    def _define_arrow(self, line: Any, color: str) -> str:
        used = []
        for tag, attribute in (("headEnd", "marker-start"), ("tailEnd", "marker-end")):
            end = child(line, tag)
            if end is None or end.get("type", "none") == "none":
                continue
            name = f"a{len(self._definitions)}"
            shape = f'<path d="M0 0L6 3L0 6Z" fill="{color}"/>'
            size = 'viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto-start-reverse"'
            self._definitions.append(f'<marker id="{name}" {size}>{shape}</marker>')
            used.append(f' {attribute}="url(#{name})"')
        return "".join(used)

    def _text_styles(self, element: Any, chain: Sequence[Any]) -> TextStyles:
        bodies = [body for each in chain if (body := each.find(f"{P}txBody")) is not None]
        place = chain[-1].find(f".//{P}nvPr/{P}ph")
        kind = place.get("type") if place is not None else "other"
        name = "titleStyle" if kind in TITLES else "otherStyle" if place is None else "bodyStyle"
        if kind in ("dt", "ftr", "sldNum"):
            name = "otherStyle"
        defaults = [self._master.element.find(f"{P}txStyles/{P}{name}")]
        defaults.append(self._deck.element.find(f"{P}defaultTextStyle"))
        lists = [*(each.find(f"{A}lstStyle") for each in bodies), *defaults]
        properties = [found for each in bodies if (found := each.find(f"{A}bodyPr")) is not None]
        color = self._read_reference(element, "fontRef") if element.find(f"{P}style") is not None else None
        return TextStyles(self._theme, properties, [each for each in lists if each is not None], color)

    def _draw_body(self, element: Any, chain: Sequence[Any], box: Box) -> str:
        body = element.find(f"{P}txBody")
        if body is None:
            return ""
        styles = self._text_styles(element, chain)
        text = draw_text(body, styles, self._number)
        if not text:
            return ""
        left, right = (int(styles.body(name, "91440")) / EMU for name in ("lIns", "rIns"))
        top, bottom = (int(styles.body(name, "45720")) / EMU for name in ("tIns", "bIns"))
        anchor = ANCHORS.get(styles.body("anchor", "t"), "flex-start")
        wrap = (
            "white-space:pre;"
            if styles.body("wrap", "square") == "none"
            else "white-space:pre-wrap;overflow-wrap:anywhere;"
        )
        vertical = "writing-mode:vertical-rl;" if styles.body("vert", "horz") != "horz" else ""
        padding = " ".join(f"{each:.1f}px" for each in (top, right, bottom, left))
        look = (
            f"box-sizing:border-box;width:100%;height:100%;padding:{padding};"
            f"display:flex;flex-direction:column;justify-content:{anchor};{wrap}{vertical}"
        )
        return draw_html(box, f'<div xmlns="{XHTML}" style="{look}">{text}</div>')

    def _embed(self, fill: Any, part: Any) -> str | None:
        """Return a picture as a data URL, within the limit of all pictures."""
        blip = fill.find(f".//{A}blip") if fill is not None else None
        relation = blip.get(f"{R}embed") if blip is not None else None
        if relation is None or relation not in part.rels or part.rels[relation].is_external:
            return None
        target = part.rels[relation].target_part
        name = str(target.partname)
        if name not in self._pictures:
            used = sum(len(each) for each in self._pictures.values() if each)
            self._pictures[name] = shrink_picture(target.blob, MAX_PICTURE_SIDE) if used < MAX_EMBEDDED else None
        return self._pictures[name]

    def _draw_picture(self, element: Any, owner: Any, frame: Frame) -> str:
        transform = next(
            (found for each in self._inherited(element) if (found := each.find(f".//{A}xfrm")) is not None), None
        )
        if transform is None:
            return ""
        box = frame.place(transform)
        picture = self._embed(element.find(f"{P}blipFill"), owner.part)
        if picture is None:
            return draw_label(box, "Picture")
        crop = element.find(f"{P}blipFill/{A}srcRect")
        left, top, right, bottom = (
            int((crop.get(each, "0") if crop is not None else "0").rstrip("%")) / 100_000 for each in "ltrb"
        )
        across, down = max(1 - left - right, 0.01), max(1 - top - bottom, 0.01)
        name = f"c{len(self._definitions)}"
        self._definitions.append(f'<clipPath id="{name}">{draw_rectangle(box, "")}</clipPath>')
        whole = Box(
            box.x - left / across * box.width, box.y - top / down * box.height, box.width / across, box.height / down
        )
        image = f'<image href="{picture}" {place_box(whole)} preserveAspectRatio="none" clip-path="url(#{name})"/>'
        line = self._read_line(element, [element.find(f"{P}spPr")])
        return rotate(image + (draw_rectangle(box, f'fill="none" {line}') if line else ""), transform, box)

    def _draw_frame(self, element: Any, owner: Any, frame: Frame) -> str:
        transform = element.find(f"{P}xfrm")
        if transform is None:
            return ""
        box = frame.place(transform)
        table = element.find(f".//{A}tbl")
        if table is not None:
            return self._draw_table(table, box)
        chart = next((each for each in element.iter() if local_tag(each) == "chart" and each.get(f"{R}id")), None)
        relation = chart.get(f"{R}id") if chart is not None else None
        if relation is not None and relation in owner.part.rels:
            part = owner.part.rels[relation].target_part
            try:
                return draw_chart(part.chart, self._theme, box) if hasattr(part, "chart") else draw_label(box, "Chart")
            except (NotImplementedError, ValueError):  # a type that python-pptx cannot read, like 3-D areas
                return draw_label(box, "Chart")
        return draw_label(box, "Object")

    def _draw_table(self, table: Any, box: Box) -> str:
        widths = [bounded(column, "w") for column in table.iter(f"{A}gridCol")]
        style = table.find(f"{A}tblPr/{A}tableStyleId")
        is_styled = style is not None and style.text not in PLAIN_TABLES
        options = table.find(f"{A}tblPr")
        has_head = options is not None and options.get("firstRow") == "1"
        columns = "".join(f'<col style="width:{width:.1f}px"/>' for width in widths)
        rows = []
        for number, row in enumerate(table.findall(f"{A}tr")):
            is_head = is_styled and has_head and number == 0
            cells = "".join(self._draw_cell(cell, is_head, is_styled, number) for cell in row.findall(f"{A}tc"))
            rows.append(f'<tr style="height:{bounded(row, "h"):.1f}px">{cells}</tr>')
        look = f"border-collapse:collapse;table-layout:fixed;width:{sum(widths) or box.width:.1f}px"
        text = f'<table xmlns="{XHTML}" style="{look}">{columns}{"".join(rows)}</table>'
        return draw_html(
            replace(box, height=max(box.height, sum(bounded(row, "h") for row in table.findall(f"{A}tr")))), text
        )

    def _draw_cell(self, cell: Any, is_head: bool, is_styled: bool, number: int) -> str:
        if cell.get("hMerge") == "1" or cell.get("vMerge") == "1":
            return ""
        properties, body = cell.find(f"{A}tcPr"), cell.find(f"{A}txBody")
        accent = f"#{self._theme.resolve('accent1')}"
        fill = css_color(child(properties, "solidFill"), self._theme)
        band = f"{accent}{'33' if number % 2 else '1A'}"
        fill = fill or (accent if is_head else band if is_styled else "transparent")
        defaults = self._deck.element.find(f"{P}defaultTextStyle")
        color = f"#{self._theme.resolve('bg1')}" if is_head else None
        styles = TextStyles(self._theme, [], [defaults] if defaults is not None else [], color)
        text = draw_text(body, styles, self._number) if body is not None else ""
        anchor = {"ctr": "middle", "b": "bottom"}.get(
            properties.get("anchor", "t") if properties is not None else "t", "top"
        )
        border = "1px solid #FFFFFF" if is_styled else "1px solid #7F7F7F"
        weight = "font-weight:700" if is_head else ""
        look = f"background:{fill};border:{border};padding:4.8px 9.6px;vertical-align:{anchor};{weight}"
        spans = f' colspan="{read_span(cell, "gridSpan")}" rowspan="{read_span(cell, "rowSpan")}"'
        return f'<td{spans} style="{look}">{text}</td>'
