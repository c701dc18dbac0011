"""Charts of slides as SVG, drawn from the values that are stored with them.

It runs in the sandbox: previews.py passes its text after the text of slide_text.py.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from deerflow.sandbox.previews.read_document import clean_text
from deerflow.sandbox.previews.slide_text import FALLBACK_FONTS, Theme, css_color

ACCENTS = ("accent1", "accent2", "accent3", "accent4", "accent5", "accent6")
MAX_POINTS, MAX_SERIES, MAX_LEGEND = 500, 30, 12
TICKS = 5
FONT = 13.0
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"


@dataclass(frozen=True)
class Series:
    """Named values of a chart with their colour."""

    name: str
    values: tuple[float | None, ...]
    color: str


@dataclass(frozen=True)
class Box:
    """Area in pixels."""

    x: float
    y: float
    width: float
    height: float


def draw_chart(chart: Any, theme: Theme, box: Box) -> str:
    """Return a chart as SVG; types that are not drawn are shown by their title and series."""
    title = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
    plots = list(chart.plots)
    kinds = [plot_kind(plot) for plot in plots]
    is_round = kinds[:1] == ["pie"]
    series = [each for plot in plots for each in read_series(plot, theme)][:MAX_SERIES]
    categories = [clean_text(str(each)) for each in list(plots[0].categories)[:MAX_POINTS]] if plots else []
    top = box.y + (28 if title else 8)
    parts = [f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" fill="none"/>']
    if title:
        parts.append(write(title, box.x + box.width / 2, box.y + 19, "middle", 16))
    names = categories if is_round else [each.name for each in series]
    colors = accent_colors(theme, len(names)) if is_round else [each.color for each in series]
    has_legend = len(names) > 1 and bool(chart.has_legend or is_round)
    area = Box(box.x + 8, top, box.width - 16, box.y + box.height - top - (24 if has_legend else 4))
    if has_legend:
        parts += draw_legend(names, colors, box)
    if not series or not any(value is not None for each in series for value in each.values):
        parts.append(write("No data", box.x + box.width / 2, box.y + box.height / 2, "middle", 14))
    elif is_round:
        parts += draw_pie(series[0], colors, area, is_ring="Doughnut" in type(plots[0]).__name__)
    else:
        parts += draw_plots(plots, kinds, theme, categories, area)
    return "".join(parts)


def plot_kind(plot: Any) -> str:
    """Return how a plot is drawn."""
    name = type(plot).__name__
    if name in ("PiePlot", "DoughnutPlot"):
        return "pie"
    if name == "BarPlot":
        bars = plot._element.find(f"{CHART}barDir")
        return "bars" if bars is not None and bars.get("val") == "bar" else "columns"
    return {"AreaPlot": "area", "Area3DPlot": "area", "XyPlot": "points", "BubblePlot": "points"}.get(name, "lines")


def accent_colors(theme: Theme, count: int) -> list[str]:
    """Return the colours of a number of series."""
    return [f"#{theme.resolve(ACCENTS[number % len(ACCENTS)])}" for number in range(count)]


def read_series(plot: Any, theme: Theme) -> Iterator[Series]:
    """Yield the series of a plot."""
    for each in plot.series:
        fallback = accent_colors(theme, each.index % len(ACCENTS) + 1)[-1]
        filled = each._element.find(f"{CHART}spPr")
        fill = next((one for one in filled if one.tag.endswith("}solidFill")), None) if filled is not None else None
        values = tuple(finite(value) for value in list(each.values)[:MAX_POINTS])
        yield Series(clean_text(each.name or f"Series {each.index + 1}"), values, css_color(fill, theme) or fallback)


def finite(value: float | None) -> float | None:
    """Return a value that can be drawn."""
    return value if value is not None and math.isfinite(value) and abs(value) < 1e300 else None


def write(text: str, x: float, y: float, anchor: str = "start", size: float = FONT, width: float = 0) -> str:
    """Return a line of text, shortened to a width."""
    fitting = max(int(width / (size * 0.55)), 1) if width else 80
    short = text if len(text) <= fitting else f"{text[: fitting - 1]}…"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}" fill="#595959" '
        f'font-family="{FALLBACK_FONTS}">{escape(clean_text(short))}</text>'
    )


def draw_legend(names: Sequence[str], colors: Sequence[str], box: Box) -> list[str]:
    """Return the legend below a chart."""
    shown = list(zip(names, colors, strict=False))[:MAX_LEGEND]
    step = min((box.width - 16) / len(shown), 140)
    left = box.x + (box.width - step * len(shown)) / 2
    y = box.y + box.height - 8
    parts = []
    for number, (name, color) in enumerate(shown):
        x = left + number * step
        parts.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" fill="{color}"/>')
        parts.append(write(name, x + 14, y, width=step - 18))
    return parts


def draw_pie(series: Series, colors: Sequence[str], area: Box, is_ring: bool) -> list[str]:
    """Return the slices of a pie or doughnut."""
    values = [max(value or 0, 0) for value in series.values]
    total = sum(values)
    radius = min(area.width, area.height) / 2 - 4
    if total <= 0 or radius <= 0:
        return []
    x, y, angle = area.x + area.width / 2, area.y + area.height / 2, -math.pi / 2
    parts = []
    for value, color in zip(values, colors, strict=False):
        turn = min(value / total, 0.9999) * 2 * math.pi
        ends = [(x + radius * math.cos(each), y + radius * math.sin(each)) for each in (angle, angle + turn)]
        path = (
            f"M{x:.1f} {y:.1f}L{ends[0][0]:.1f} {ends[0][1]:.1f}A{radius:.1f} {radius:.1f} 0 {int(turn > math.pi)} 1 "
        )
        parts.append(f'<path d="{path}{ends[1][0]:.1f} {ends[1][1]:.1f}Z" fill="{color}" stroke="#FFFFFF"/>')
        angle += turn
    if is_ring:
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius * 0.55:.1f}" fill="#FFFFFF"/>')
    return parts


def draw_plots(
    plots: Sequence[Any], kinds: Sequence[str], theme: Theme, categories: Sequence[str], area: Box
) -> list[str]:
    """Return all plots over one pair of axes."""
    read = [(kind, is_stacked(plot), list(read_series(plot, theme))) for plot, kind in zip(plots, kinds, strict=True)]
    low, high = find_range(read)
    if "bars" in kinds:
        inner = Box(area.x + 80, area.y, area.width - 90, area.height - 18)
    else:
        inner = Box(area.x + 44, area.y + 6, area.width - 52, area.height - 26)
    scale = Scale(low, high, inner, is_horizontal="bars" in kinds)
    parts = [*scale.draw(), *draw_categories(categories, inner, "bars" in kinds)]
    count = max((len(each.values) for _, _, series in read for each in series), default=1)
    for kind, stacked, series in read:
        if kind in ("columns", "bars"):
            parts += draw_bars(series, count, scale, stacked)
        else:
            parts += draw_lines(series, count, scale, kind)
    return parts


def is_stacked(plot: Any) -> bool:
    """Return whether the values of a plot are added up."""
    grouping = plot._element.find(f"{CHART}grouping")
    return grouping is not None and grouping.get("val") in ("stacked", "percentStacked")


def find_range(plots: Sequence[tuple[str, bool, Sequence[Series]]]) -> tuple[float, float]:
    """Return the lowest and the highest value of the axis."""
    ends = [0.0]
    for kind, stacked, series in plots:
        columns = zip(*(each.values for each in series), strict=False)
        if stacked and kind in ("columns", "bars"):
            for column in columns:
                ends += [sum(value for value in column if value and value > 0)]
                ends += [sum(value for value in column if value and value < 0)]
        else:
            ends += [value for each in series for value in each.values if value is not None]
    low, high = min(ends), max(ends)
    return (low, high) if high > low else (low, low + 1)


class Scale:
    """Axis with round ticks that places values in an area."""

    def __init__(self, low: float, high: float, area: Box, is_horizontal: bool) -> None:
        raw = (high - low) / TICKS
        power = 10 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
        self.step = next((power * each for each in (1, 2, 2.5, 5) if power * each >= raw), power * 10)
        self.low = math.floor(low / self.step) * self.step
        self.high = math.ceil(high / self.step) * self.step
        self.area = area
        self.is_horizontal = is_horizontal

    def place(self, value: float) -> float:
        """Return the coordinate of a value."""
        share = (value - self.low) / (self.high - self.low)
        area = self.area
        return area.x + share * area.width if self.is_horizontal else area.y + (1 - share) * area.height

    def draw(self) -> Iterator[str]:
        """Yield the lines and labels of the ticks."""
        area = self.area
        for number in range(round((self.high - self.low) / self.step) + 1):
            value = self.low + number * self.step
            at = self.place(value)
            ends = (
                (at, area.y, at, area.y + area.height) if self.is_horizontal else (area.x, at, area.x + area.width, at)
            )
            line = 'x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"'.format(*ends)
            yield f'<line {line} stroke="#D9D9D9"/>'
            label = f"{value:,.0f}" if self.step >= 1 and abs(value) < 1e7 else f"{value:.4g}"
            if self.is_horizontal:
                yield write(label, at, area.y + area.height + 14, "middle")
            else:
                yield write(label, area.x - 6, at + 4, "end", width=44)


def draw_categories(categories: Sequence[str], area: Box, is_horizontal: bool) -> Iterator[str]:
    """Yield the labels of the categories; some are left out if they do not fit."""
    if not categories:
        return
    step = (area.height if is_horizontal else area.width) / len(categories)
    every = max(math.ceil((16 if is_horizontal else 40) / step), 1) if step > 0 else 1
    for number in range(0, len(categories), every):
        middle = (number + 0.5) * step
        if is_horizontal:
            yield write(categories[number], area.x - 6, area.y + area.height - middle + 4, "end", width=76)
        else:
            at = area.x + middle
            yield write(categories[number], at, area.y + area.height + 16, "middle", width=max(step * every, 24))


def draw_bars(series: Sequence[Series], count: int, scale: Scale, stacked: bool) -> Iterator[str]:
    """Yield the bars of a plot."""
    length = (scale.area.height if scale.is_horizontal else scale.area.width) / max(count, 1)
    bars = 1 if stacked else max(len(series), 1)
    thick = max(length * 0.7 / bars, 0.5)
    above, below = [0.0] * count, [0.0] * count
    for bar, each in enumerate(series):
        for number, value in enumerate(each.values):
            if value is None:
                continue
            base = (above if value >= 0 else below)[number] if stacked else 0.0
            (above if value >= 0 else below)[number] += value
            start, end = sorted((scale.place(base), scale.place(base + value)))
            offset = number * length + length * 0.15 + (0 if stacked else bar * thick)
            if scale.is_horizontal:
                y = scale.area.y + scale.area.height - offset - thick
                place = f'x="{start:.1f}" y="{y:.1f}" width="{end - start:.1f}" height="{thick:.1f}"'
            else:
                x = scale.area.x + offset
                place = f'x="{x:.1f}" y="{start:.1f}" width="{thick:.1f}" height="{end - start:.1f}"'
            yield f'<rect {place} fill="{each.color}"/>'


def draw_lines(series: Sequence[Series], count: int, scale: Scale, kind: str) -> Iterator[str]:
    """Yield the lines, areas or points of a plot."""
    area = scale.area
    step = area.width / max(count, 1)
    for each in series:
        points = [
            (area.x + (number + 0.5) * step, scale.place(value))
            for number, value in enumerate(each.values)
            if value is not None
        ]
        if kind == "points":
            yield "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{each.color}"/>' for x, y in points)
            continue
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        if kind == "area" and points:
            zero = scale.place(0)
            ends = f"{points[-1][0]:.1f},{zero:.1f} {points[0][0]:.1f},{zero:.1f}"
            yield f'<polygon points="{line} {ends}" fill="{each.color}" fill-opacity="0.6"/>'
        yield f'<polyline points="{line}" fill="none" stroke="{each.color}" stroke-width="2.5"/>'
