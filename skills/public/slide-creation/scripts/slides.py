"""Builds the slides of a deck, one function per layout of the outline."""

import copy
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import largest
from PIL import Image
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE, XL_LEGEND_POSITION
from pptx.enum.dml import MSO_THEME_COLOR
from pptx.enum.shapes import MSO_SHAPE
from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
from pptx.oxml.ns import qn
from pptx.presentation import Presentation as Deck
from pptx.slide import Slide
from pptx.text.text import TextFrame
from pptx.util import Inches, Pt
from theme import BOTTOM, CONTENT, LEFT, ROOM, TOP, half

SIZES = (24, 22, 20, 18, 16)
CELL_SIZES = (16, 14, 12)
CHARTS = {
    "column": XL_CHART_TYPE.COLUMN_CLUSTERED,
    "stacked": XL_CHART_TYPE.COLUMN_STACKED,
    "bar": XL_CHART_TYPE.BAR_CLUSTERED,
    "line": XL_CHART_TYPE.LINE_MARKERS,
    "area": XL_CHART_TYPE.AREA_STACKED,
    "doughnut": XL_CHART_TYPE.DOUGHNUT,
    "scatter": XL_CHART_TYPE.XY_SCATTER,
}

Box = tuple[float, float, float, float]


class Unfit(Exception):
    """A slide that cannot be made as asked; the text says why."""


class Builder:
    """Adds slides to a deck; files are looked for below `base`."""

    def __init__(self, deck: Deck, base: Path) -> None:
        self.deck, self.base = deck, base
        self.layouts: dict[str, Callable[[dict[str, Any]], Slide]] = {
            "title": self.opening,
            "section": self.section,
            "bullets": self.bullets,
            "two-columns": self.two_columns,
            "chart": self.chart,
            "image": self.image,
            "table": self.table,
            "numbers": self.numbers,
            "quote": self.quote,
            "timeline": self.timeline,
        }

    def add(self, given: dict[str, Any]) -> Slide:
        """One slide with its number and its notes."""
        slide = self.layouts[given["layout"]](given)
        if given.get("notes"):
            slide.notes_slide.notes_text_frame.text = str(given["notes"]).strip()
        if given["layout"] not in {"title", "section"}:
            for shape in slide.slide_layout.placeholders:
                if "SLIDE_NUMBER" in str(shape.placeholder_format.type):
                    slide.shapes._spTree.append(copy.deepcopy(shape._element))
        return slide

    def opening(self, given: dict[str, Any]) -> Slide:
        """The first slide."""
        slide = self.start("Title Slide", given)
        fill(slide, 1, " · ".join(str(given[key]) for key in ("subtitle", "author", "date") if given.get(key)))
        stripe(slide)
        return slide

    def section(self, given: dict[str, Any]) -> Slide:
        """A slide that opens a part."""
        slide = self.start("Section Header", given)
        fill(slide, 1, str(given.get("subtitle") or ""))
        stripe(slide)
        return slide

    def bullets(self, given: dict[str, Any]) -> Slide:
        """Points, at most two levels, beside a picture if there is one."""
        picture = given.get("image")
        slide = self.start("Two Content" if picture else "Title and Content", given)
        write_points(slide.placeholders[1].text_frame, given.get("points"), half(0) if picture else CONTENT)
        if picture:
            self.put_picture(slide, picture, half(1), given)
            drop(slide, 2)
        return slide

    def two_columns(self, given: dict[str, Any]) -> Slide:
        """Two lists beside each other, each with a heading."""
        slide = self.start("Two Content", given)
        for side, name in enumerate(("left", "right")):
            column = given.get(name)
            if not isinstance(column, dict):
                raise Unfit(f"`{name}` must have `heading` and `points`")
            write_points(
                slide.placeholders[side + 1].text_frame, column.get("points"), half(side), column.get("heading")
            )
        return slide

    def chart(self, given: dict[str, Any]) -> Slide:
        """A chart people can edit, with what to see beside it."""
        spec = given.get("chart")
        if not isinstance(spec, dict) or spec.get("type") not in CHARTS:
            raise Unfit(f"`chart.type` must be one of {', '.join(CHARTS)}")
        slide = self.start("Title Only", given)
        takeaway = given.get("takeaway")
        box = (LEFT, TOP, ROOM * 0.68 if takeaway else ROOM, BOTTOM - TOP)
        frame = slide.shapes.add_chart(CHARTS[spec["type"]], *map(Inches, box), chart_data(spec, self.base))
        frame._element.nvGraphicFramePr.cNvPr.set(
            "descr", str(given.get("alt") or f"{spec['type']} chart: {given['title']}")
        )
        style_chart(frame.chart, spec)
        if takeaway:
            side = (LEFT + ROOM * 0.72, TOP, ROOM * 0.28, BOTTOM - TOP)
            write_box(slide, str(takeaway), side, (20, 18, 16, 14), MSO_ANCHOR.MIDDLE)
        return slide

    def image(self, given: dict[str, Any]) -> Slide:
        """A picture as large as it goes, with a caption."""
        slide = self.start("Title Only", given)
        caption = given.get("caption")
        high = BOTTOM - TOP - (0.5 if caption else 0)
        self.put_picture(slide, given.get("image"), (LEFT, TOP, ROOM, high), given)
        if caption:
            write_box(slide, str(caption), (LEFT, BOTTOM - 0.4, ROOM, 0.45), (14, 12), MSO_ANCHOR.TOP, soft=True)
        return slide

    def table(self, given: dict[str, Any]) -> Slide:
        """A table with figures to the right."""
        rows = given.get("rows")
        if not isinstance(rows, list) or len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
            raise Unfit("`rows` must be a list of equally long rows, the head first")
        if len(rows) > 11 or len(rows[0]) > 7:
            raise Unfit(
                f"a table of {len(rows)} rows and {len(rows[0])} columns is unreadable on a slide; show 10 by 7 at most"
            )
        slide = self.start("Title Only", given)
        high = min(0.46 * len(rows), BOTTOM - TOP)
        made = slide.shapes.add_table(len(rows), len(rows[0]), *map(Inches, (LEFT, TOP, ROOM, high))).table
        room = ROOM / len(rows[0]) - 0.2
        size = next(
            (s for s in CELL_SIZES if all(largest([(str(c), 0)], (room + 0.3, 0.8), (s,)) for r in rows for c in r)),
            None,
        )
        if size is None:
            raise Unfit("a cell of the table holds too much text")
        for number, row in enumerate(rows):
            for column, value in enumerate(row):
                cell = made.cell(number, column)
                cell.text_frame.text = "" if value is None else str(value)
                cell.vertical_anchor = MSO_ANCHOR.MIDDLE
                paragraph = cell.text_frame.paragraphs[0]
                paragraph.font.size, paragraph.font.bold = Pt(size), number == 0
                if is_figure(str(value)) or (number == 0 and is_figure(str(rows[1][column]))):
                    paragraph.alignment = PP_ALIGN.RIGHT
        return slide

    def numbers(self, given: dict[str, Any]) -> Slide:
        """Two to four large figures with what they are."""
        figures = given.get("numbers")
        if not isinstance(figures, list) or not 1 <= len(figures) <= 4:
            raise Unfit("`numbers` must be a list of one to four {value, label}")
        slide = self.start("Title Only", given)
        wide = (ROOM - 0.4 * (len(figures) - 1)) / len(figures)
        for number, figure in enumerate(figures):
            left = LEFT + number * (wide + 0.4)
            value = write_box(
                slide, str(figure["value"]), (left, 2.5, wide, 1.4), (60, 54, 48, 40, 32), MSO_ANCHOR.BOTTOM
            )
            value.paragraphs[0].font.bold = True
            value.paragraphs[0].font.color.theme_color = MSO_THEME_COLOR.ACCENT_1
            write_box(slide, str(figure.get("label") or ""), (left, 4.05, wide, 1.6), (20, 18, 16), MSO_ANCHOR.TOP)
        return slide

    def quote(self, given: dict[str, Any]) -> Slide:
        """Words of somebody."""
        slide = self.start("Title Only", given)
        write_box(
            slide,
            f"“{str(given.get('quote') or '').strip()}”",
            (1.6, 2.0, 10, 3.2),
            (32, 28, 24, 20),
            MSO_ANCHOR.MIDDLE,
        )
        write_box(slide, f"— {given.get('by') or ''}", (1.6, 5.4, 10, 0.6), (18, 16), MSO_ANCHOR.TOP, soft=True)
        return slide

    def timeline(self, given: dict[str, Any]) -> Slide:
        """Three to six steps along a line."""
        steps = given.get("steps")
        if not isinstance(steps, list) or not 2 <= len(steps) <= 6:
            raise Unfit("`steps` must be a list of two to six {when, what}")
        slide = self.start("Title Only", given)
        line = slide.shapes.add_connector(1, Inches(LEFT), Inches(3.6), Inches(LEFT + ROOM), Inches(3.6))
        line.line.color.theme_color, line.line.width = MSO_THEME_COLOR.TEXT_2, Pt(1.5)
        wide = ROOM / len(steps)
        for number, step in enumerate(steps):
            left = LEFT + number * wide
            mark = slide.shapes.add_shape(MSO_SHAPE.OVAL, Inches(left), Inches(3.48), Inches(0.24), Inches(0.24))
            mark.fill.solid()
            mark.fill.fore_color.theme_color = MSO_THEME_COLOR.ACCENT_1
            mark.line.fill.background()
            mark.shadow.inherit = False
            when = write_box(slide, str(step["when"]), (left, 2.6, wide - 0.2, 0.7), (20, 18, 16), MSO_ANCHOR.BOTTOM)
            when.paragraphs[0].font.bold = True
            write_box(slide, str(step["what"]), (left, 3.95, wide - 0.2, 2.4), (18, 16, 14), MSO_ANCHOR.TOP)
        return slide

    def start(self, layout: str, given: dict[str, Any]) -> Slide:
        """A slide with its title."""
        slide = self.deck.slides.add_slide(self.deck.slide_layouts.get_by_name(layout))
        title, opening = str(given["title"]), layout in {"Title Slide", "Section Header"}
        size = largest([(title, 0)], (10.5, 1.9) if opening else (ROOM, 1.0), (40, 36, 32) if opening else (28, 26, 24))
        if size is None:
            raise Unfit("the title is too long: two lines at most")
        slide.shapes.title.text_frame.text = title
        slide.shapes.title.text_frame.paragraphs[0].font.size = Pt(size)
        return slide

    def put_picture(self, slide: Slide, name: Any, box: Box, given: dict[str, Any]) -> None:
        """A picture in the middle of a box, with its alternative text."""
        path = self.base / str(name)
        if not path.is_file():
            raise Unfit(f"there is no picture {str(name)!r}")
        if not given.get("alt"):
            raise Unfit(f"the picture {path.name} needs `alt`, what it shows in words")
        try:
            with Image.open(path) as picture:
                wide, high = picture.size
        except OSError:
            raise Unfit(f"{path.name} is no picture that slides can show; use PNG or JPEG") from None
        scale = min(box[2] / wide, box[3] / high)
        left, top = box[0] + (box[2] - wide * scale) / 2, box[1] + (box[3] - high * scale) / 2
        made = slide.shapes.add_picture(str(path), *map(Inches, (left, top, wide * scale, high * scale)))
        made._element.nvPicPr.cNvPr.set("descr", str(given["alt"]))


def write_points(frame: TextFrame, given: Any, box: Box, heading: Any = None) -> None:
    """Points as paragraphs; a list inside the list is the second level."""
    paragraphs = [(str(heading), 0)] if heading else []
    for point in given if isinstance(given, list) else []:
        inner = point if isinstance(point, list) else [point]
        paragraphs += [(str(text), 1 if isinstance(point, list) else 0) for text in inner]
    if not paragraphs:
        raise Unfit("`points` must be a list of texts")
    size = largest(paragraphs, (box[2], box[3]), SIZES)
    if size is None:
        raise Unfit(
            f"too much text ({sum(len(text.split()) for text, _ in paragraphs)} words): split the slide or shorten it"
        )
    for number, (text, level) in enumerate(paragraphs):
        paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
        paragraph.font.size = Pt(size - 2 * level)
        paragraph.space_after = Pt(size * 0.35)
        if heading and number == 0:
            paragraph.font.bold = True
            unmarked(paragraph)


def unmarked(paragraph: Any) -> None:
    """Take the bullet of a paragraph away, and the room for it."""
    properties = paragraph._p.get_or_add_pPr()
    properties.set("marL", "0")
    properties.set("indent", "0")
    none = properties.makeelement(qn("a:buNone"), {})
    properties.insert_element_before(none, "a:tabLst", "a:defRPr", "a:extLst")


def write_box(
    slide: Slide, text: str, box: Box, sizes: tuple[int, ...], anchor: MSO_ANCHOR, soft: bool = False
) -> TextFrame:
    """Text in a box of its own, as large as it fits."""
    size = largest([(text, 0)], (box[2] + 0.3, box[3]), sizes)
    if size is None:
        raise Unfit(f"too much text for its place: {text[:40]!r} …")
    frame = slide.shapes.add_textbox(*map(Inches, box)).text_frame
    frame.word_wrap, frame.vertical_anchor = True, anchor
    frame.margin_left = frame.margin_right = 0
    frame.text = text
    for paragraph in frame.paragraphs:
        paragraph.font.size = Pt(size)
        paragraph.font.color.theme_color = MSO_THEME_COLOR.TEXT_2 if soft else MSO_THEME_COLOR.TEXT_1
    return frame


def chart_data(spec: dict[str, Any], base: Path) -> Any:
    """Figures of a chart: written into the outline, or columns of a CSV file."""
    categories, series = spec.get("categories"), spec.get("series")
    if spec.get("data"):
        categories, series = columns(base / str(spec["data"]), str(spec.get("x") or ""), spec.get("y"))
    if not isinstance(categories, list) or not isinstance(series, dict) or not series:
        raise Unfit("`chart` needs `categories` and `series: {name: [figures]}`, or `data`, `x` and `y`")
    for name, values in series.items():
        if len(values) != len(categories):
            raise Unfit(f"series {name!r} has {len(values)} figures for {len(categories)} categories")
    if spec["type"] == "scatter":
        points_data = XyChartData()
        for name, values in series.items():
            added = points_data.add_series(str(name))
            for x, y in zip(categories, values, strict=True):
                added.add_data_point(float(x), y)
        return points_data
    data = CategoryChartData(number_format=str(spec.get("number_format") or "#,##0.##"))
    data.categories = [str(name) for name in categories]
    for name, values in series.items():
        data.add_series(str(name), values)
    return data


def columns(path: Path, x: str, y: Any) -> tuple[list[str], dict[str, list[float | None]]]:
    """Columns of a CSV file."""
    if not path.is_file():
        raise Unfit(f"there is no data file {path.name!r}")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [y] if isinstance(y, str) else list(y or [])
    for name in [x, *names]:
        if not rows or name not in rows[0]:
            raise Unfit(f"{path.name} has no column {name!r}; it has {', '.join(rows[0] if rows else [])}")
    try:
        return [row[x] for row in rows], {
            name: [float(row[name]) if row[name] else None for row in rows] for name in names
        }
    except ValueError as problem:
        raise Unfit(f"{path.name} holds something that is no figure: {problem}") from None


def style_chart(chart: Any, spec: dict[str, Any]) -> None:
    """Quiet axes; a legend only where it is needed."""
    chart.font.size = Pt(14)
    many = spec["type"] == "doughnut" or len(chart.plots[0].series if spec["type"] != "scatter" else chart.series) > 1
    chart.has_legend = bool(many)
    if many:
        chart.legend.position, chart.legend.include_in_layout = XL_LEGEND_POSITION.TOP, False
    chart.has_title = False
    plot = chart.plots[0]
    if spec["type"] in {"column", "bar", "doughnut", "stacked"}:
        plot.has_data_labels = True
        plot.data_labels.font.size = Pt(12)
        plot.data_labels.number_format, plot.data_labels.number_format_is_linked = (
            str(spec.get("number_format") or "#,##0.##"),
            False,
        )
    if spec["type"] in {"column", "bar"}:
        plot.gap_width = 60
    if spec["type"] != "doughnut":
        chart.value_axis.has_major_gridlines = spec["type"] in {"line", "area", "scatter"}
        chart.value_axis.format.line.fill.background()
        if spec["type"] in {"column", "bar", "stacked"}:
            chart.value_axis.visible, chart.value_axis.minimum_scale = False, 0
        if spec["type"] == "bar":
            chart.category_axis.reverse_order = True


def fill(slide: Slide, index: int, text: str) -> None:
    """Text into a placeholder, which goes when there is none."""
    if text:
        slide.placeholders[index].text_frame.text = text
    else:
        drop(slide, index)


def drop(slide: Slide, index: int) -> None:
    """Take an empty placeholder away."""
    element = slide.placeholders[index]._element
    element.getparent().remove(element)


def stripe(slide: Slide) -> None:
    """A short bar in the first colour of the theme: the one ornament there is."""
    bar = slide.shapes.add_shape(MSO_SHAPE.RECTANGLE, Inches(LEFT), Inches(4.22), Inches(1.2), Inches(0.08))
    bar.shadow.inherit = False
    bar.fill.solid()
    bar.fill.fore_color.theme_color = MSO_THEME_COLOR.ACCENT_1
    bar.line.fill.background()


def is_figure(text: str) -> bool:
    """Whether a cell holds a figure, with or without its unit."""
    bare = text.strip().strip("%€$£+-−±~ ").replace(",", "").replace(".", "").replace(" ", "")
    return bare.isdigit()
