"""Shapes of slides as SVG: boxes, outlines, placeholders and transforms.

It runs in the sandbox: previews.py passes its text after the text of draw_charts.py.
"""

from dataclasses import dataclass
from html import escape
from typing import Any

from deerflow.sandbox.previews.draw_charts import Box
from deerflow.sandbox.previews.read_document import A
from deerflow.sandbox.previews.slide_text import EMU, P, local_tag

MAX_COORDINATE = 1e6
POLYGONS: dict[str, str] = {
    "triangle": "0.5,0 1,1 0,1",
    "rtTriangle": "0,0 1,1 0,1",
    "diamond": "0.5,0 1,0.5 0.5,1 0,0.5",
    "parallelogram": "0.2,0 1,0 0.8,1 0,1",
    "trapezoid": "0.2,0 0.8,0 1,1 0,1",
    "hexagon": "0.2,0 0.8,0 1,0.5 0.8,1 0.2,1 0,0.5",
    "pentagon": "0.5,0 1,0.4 0.8,1 0.2,1 0,0.4",
    "homePlate": "0,0 0.8,0 1,0.5 0.8,1 0,1",
    "chevron": "0,0 0.8,0 1,0.5 0.8,1 0,1 0.2,0.5",
    "rightArrow": "0,0.25 0.7,0.25 0.7,0 1,0.5 0.7,1 0.7,0.75 0,0.75",
    "leftArrow": "1,0.25 0.3,0.25 0.3,0 0,0.5 0.3,1 0.3,0.75 1,0.75",
    "upArrow": "0.25,1 0.25,0.3 0,0.3 0.5,0 1,0.3 0.75,0.3 0.75,1",
    "downArrow": "0.25,0 0.25,0.7 0,0.7 0.5,1 1,0.7 0.75,0.7 0.75,0",
    "plus": "0.3,0 0.7,0 0.7,0.3 1,0.3 1,0.7 0.7,0.7 0.7,1 0.3,1 0.3,0.7 0,0.7 0,0.3 0.3,0.3",
    "star5": "0.5,0 0.62,0.38 1,0.38 0.69,0.61 0.81,1 0.5,0.76 0.19,1 0.31,0.61 0,0.38 0.38,0.38",
}
LINES = ("line", "straightConnector1", "bentConnector3", "curvedConnector3")
COMMANDS = {"moveTo": "M", "lnTo": "L", "cubicBezTo": "C", "quadBezTo": "Q"}


@dataclass(frozen=True)
class Frame:
    """Scale and offset of the coordinates in a group."""

    scale_x: float = 1.0
    scale_y: float = 1.0
    x: float = 0.0
    y: float = 0.0

    def place(self, transform: Any) -> Box:
        """Return the box of a transform in pixels of the slide."""
        offset, extent = transform.find(f"{A}off"), transform.find(f"{A}ext")
        x, y = (bounded(offset, name) for name in ("x", "y"))
        width, height = (bounded(extent, name) for name in ("cx", "cy"))
        return Box(x * self.scale_x + self.x, y * self.scale_y + self.y, width * self.scale_x, height * self.scale_y)


def bounded(element: Any, name: str) -> float:
    """Return a length in pixels; hostile numbers are limited."""
    value = int(float(element.get(name, "0"))) / EMU if element is not None else 0.0
    return min(max(value, -MAX_COORDINATE), MAX_COORDINATE)


def read_span(cell: Any, name: str) -> int:
    """Return the number of columns or rows that a cell covers."""
    return min(max(int(cell.get(name, "1")), 1), 100)


def child(parent: Any, *names: str) -> Any:
    """Return the first child with one of the names."""
    return next((each for each in parent if local_tag(each) in names), None) if parent is not None else None


def is_hidden(element: Any) -> bool:
    """Return whether a shape is hidden."""
    return any(each.get("hidden") == "1" for each in element.iterfind(f"*/{P}cNvPr"))


def find_placeholder(owner: Any, kind: str | None, index: str | None) -> Any:
    """Return the placeholder of a layout by its index, or of a master by its type."""
    wanted = {"ctrTitle": "title", "subTitle": "body", "obj": "body", None: "body"}
    for element in owner.element.iter(f"{P}sp", f"{P}pic"):
        place = element.find(f".//{P}nvPr/{P}ph")
        if place is None:
            continue
        own = place.get("type")
        if index is not None and place.get("idx", "0") == index and (index != "0" or own == kind):
            return element
        if index is None and wanted.get(own, own) == wanted.get(kind, kind):
            return element
    return None


def enter_group(group: Any, frame: Frame) -> Frame:
    """Return the frame of the shapes in a group."""
    transform = group.find(f"{P}grpSpPr/{A}xfrm")
    if transform is None:
        return frame
    outer = frame.place(transform)
    origin, extent = transform.find(f"{A}chOff"), transform.find(f"{A}chExt")
    x, y, width, height = bounded(origin, "x"), bounded(origin, "y"), bounded(extent, "cx"), bounded(extent, "cy")
    scale_x = outer.width / width if width else frame.scale_x
    scale_y = outer.height / height if height else frame.scale_y
    return Frame(scale_x, scale_y, outer.x - x * scale_x, outer.y - y * scale_y)


def place_box(box: Box) -> str:
    """Return the attributes of a box."""
    return f'x="{box.x:.1f}" y="{box.y:.1f}" width="{abs(box.width):.1f}" height="{abs(box.height):.1f}"'


def draw_rectangle(box: Box, look: str, radius: float = 0) -> str:
    """Return a rectangle."""
    return f"<rect {place_box(box)}{f' rx={chr(34)}{radius:.1f}{chr(34)}' if radius else ''} {look}/>"


def draw_html(box: Box, content: str) -> str:
    """Return XHTML in a box; content that is too long is shown below it."""
    return f'<foreignObject {place_box(box)} style="overflow:visible">{content}</foreignObject>'


def draw_label(box: Box, text: str) -> str:
    """Return a box in place of something that is not drawn."""
    middle = f'x="{box.x + box.width / 2:.1f}" y="{box.y + box.height / 2:.1f}"'
    look = 'text-anchor="middle" font-size="14" fill="#7F7F7F" font-family="sans-serif"'
    label = f"<text {middle} {look}>{escape(text)}</text>"
    return draw_rectangle(box, 'fill="#F2F2F2" stroke="#BFBFBF" stroke-dasharray="4 4"') + label


def draw_geometry(properties: Any, box: Box, look: str) -> str:
    """Return the outline of a shape; unknown presets are rectangles."""
    custom = child(properties, "custGeom")
    if custom is not None:
        return draw_paths(custom, box, look)
    preset = child(properties, "prstGeom")
    name = preset.get("prst", "rect") if preset is not None else "rect"
    if name == "ellipse":
        center = f'cx="{box.x + box.width / 2:.1f}" cy="{box.y + box.height / 2:.1f}"'
        return f'<ellipse {center} rx="{box.width / 2:.1f}" ry="{box.height / 2:.1f}" {look}/>'
    if name in LINES:
        ends = f'x1="{box.x:.1f}" y1="{box.y:.1f}" x2="{box.x + box.width:.1f}" y2="{box.y + box.height:.1f}"'
        return f"<line {ends} {look}/>"
    if name in POLYGONS:
        points = (each.split(",") for each in POLYGONS[name].split())
        placed = " ".join(f"{box.x + float(x) * box.width:.1f},{box.y + float(y) * box.height:.1f}" for x, y in points)
        return f'<polygon points="{placed}" {look}/>'
    is_round = name.lower().startswith(("round", "flowchartalternate", "flowchartterminator"))
    return draw_rectangle(box, look, read_radius(preset, box) if is_round else 0)


def read_radius(preset: Any, box: Box) -> float:
    """Return the radius of the corners of a rounded rectangle."""
    guide = next(preset.iter(f"{A}gd"), None)
    text = guide.get("fmla", "") if guide is not None else ""
    share = int(text.removeprefix("val ")) / 100_000 if text.startswith("val ") else 0.16667
    return min(box.width, box.height) * min(max(share, 0), 0.5)


def draw_paths(custom: Any, box: Box, look: str) -> str:
    """Return the paths of a freeform shape."""
    drawn = []
    for path in custom.iter(f"{A}path"):
        across = box.width / (int(path.get("w", "0")) or box.width * EMU)
        down = box.height / (int(path.get("h", "0")) or box.height * EMU)
        steps = []
        for step in path:
            points = [
                (box.x + int(each.get("x", "0")) * across, box.y + int(each.get("y", "0")) * down) for each in step
            ]
            if local_tag(step) == "close":
                steps.append("Z")
            elif local_tag(step) in COMMANDS and points:
                steps.append(COMMANDS[local_tag(step)] + " ".join(f"{x:.1f} {y:.1f}" for x, y in points))
        drawn.append(f'<path d="{"".join(steps)}" {look}/>')
    return "".join(drawn)


def flip(shape: str, box: Box, across: bool, down: bool) -> str:
    """Return a shape that is mirrored in its box."""
    if not across and not down:
        return shape
    x, y = (2 * box.x + box.width if across else 0), (2 * box.y + box.height if down else 0)
    return f'<g transform="translate({x:.1f} {y:.1f}) scale({-1 if across else 1} {-1 if down else 1})">{shape}</g>'


def rotate(shape: str, transform: Any, box: Box) -> str:
    """Return a shape that is turned around its centre."""
    angle = int(transform.get("rot", "0")) / 60_000
    center = f"{box.x + box.width / 2:.1f} {box.y + box.height / 2:.1f}"
    return f'<g transform="rotate({angle:.2f} {center})">{shape}</g>' if angle else shape
