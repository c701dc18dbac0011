"""Draws each kind of chart onto empty axes."""

from collections.abc import Callable

import matplotlib.dates as dates
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from spec import Spec, arranged, fail
from style import COLOURS, GRID, INK, QUIET, SOFT, colours, emphasised, measure, readable, shorten

MAX_SLICES = 6
MAX_LABELLED_BARS = 20

Draw = Callable[[Axes, pd.DataFrame, Spec], None]


def bar(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Upright bars from zero, one per x."""
    values = arranged(frame, spec).iloc[:, 0].fillna(0)
    names = [str(name) for name in values.index]
    bars = axes.bar(names, values, color=emphasised(names, spec.highlight), width=0.72)
    measure(axes, "y", spec.unit)
    if labelled(spec, len(names)):
        axes.bar_label(bars, [readable(value, spec.unit) for value in values], padding=3, fontsize=9)
        axes.tick_params(labelleft=False)
        axes.grid(False)


def horizontal_bar(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Lying bars, the first on top: for long names and rankings."""
    values = arranged(frame, spec).iloc[:, 0].fillna(0)
    names = [str(name) for name in values.index]
    bars = axes.barh(names, values, color=emphasised(names, spec.highlight), height=0.72)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    measure(axes, "x", spec.unit)
    if labelled(spec, len(names)):
        axes.bar_label(bars, [readable(value, spec.unit) for value in values], padding=4, fontsize=9)
        axes.tick_params(labelbottom=False)
        axes.grid(False)


def grouped_bar(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Bars side by side, one per series."""
    wide = arranged(frame, spec)
    places, width = np.arange(len(wide)), 0.8 / len(wide.columns)
    for number, (name, colour) in enumerate(zip(wide.columns, colours(len(wide.columns)), strict=True)):
        axes.bar(places + (number + 0.5) * width - 0.4, wide[name], width * 0.94, color=colour, label=name)
    axes.set_xticks(places, [str(name) for name in wide.index])
    measure(axes, "y", spec.unit)
    legend(axes, wide.columns)


def stacked_bar(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Bars of parts on top of each other."""
    wide = arranged(frame, spec).fillna(0)
    if (wide < 0).any().any():
        fail("parts of a stacked bar cannot be negative; use grouped-bar or waterfall")
    names, bottom = [str(name) for name in wide.index], np.zeros(len(wide))
    for name, colour in zip(wide.columns, colours(len(wide.columns)), strict=True):
        axes.bar(names, wide[name], 0.72, bottom=bottom, color=colour, label=name, edgecolor="white", linewidth=0.7)
        bottom += wide[name].to_numpy(dtype=float)
    measure(axes, "y", spec.unit)
    legend(axes, wide.columns)


def line(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Change along x, usually time; each line is named at its end."""
    wide = in_time(arranged(frame, spec))
    marker = "o" if len(wide) <= 12 else None
    palette = colours(len(wide.columns))
    for number, name in enumerate(wide.columns):
        quiet = spec.highlight and name not in spec.highlight
        shade = QUIET if quiet else palette[number]
        axes.plot(wide.index, wide[name], color=shade, linewidth=1.6 if quiet else 2.2, marker=marker, markersize=4)
    measure(axes, "y", spec.unit)
    time_axis(axes, wide)
    name_ends(axes, wide, [QUIET if spec.highlight and n not in spec.highlight else c
                           for n, c in zip(wide.columns, palette, strict=True)])  # fmt: skip


def area(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Parts of a whole along x."""
    wide = in_time(arranged(frame, spec)).fillna(0)
    if (wide < 0).any().any():
        fail("parts of an area chart cannot be negative; use line")
    axes.stackplot(wide.index, wide.to_numpy().T, colors=colours(len(wide.columns)), labels=wide.columns, linewidth=0)
    axes.margins(x=0)
    measure(axes, "y", spec.unit)
    time_axis(axes, wide)
    legend(axes, wide.columns)


def scatter(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Two figures of each row against each other; with `size_by` a third as area."""
    frame[spec.x] = pd.to_numeric(frame[spec.x], errors="coerce")
    frame = frame.dropna(subset=[spec.x, spec.y[0]])
    if frame.empty:
        fail(f"columns {spec.x!r} and {spec.y[0]!r} have no row in which both are figures")
    groups = frame.groupby(spec.series, sort=False) if spec.series else [("", frame)]
    largest = frame[spec.size_by].max() if spec.size_by else 1
    names = []
    for number, (name, rows) in enumerate(groups):
        area_of = rows[spec.size_by] / largest * 900 if spec.size_by else 36
        shade = COLOURS[number % len(COLOURS)]
        axes.scatter(rows[spec.x], rows[spec.y[0]], s=area_of, color=shade, alpha=0.7, label=str(name), linewidths=0)
        names.append(str(name))
    measure(axes, "y", spec.unit)
    shorten(axes, "x", "")
    axes.grid(True, color=GRID)
    legend(axes, names)


def histogram(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """How often values fall where; the line is the median."""
    column = spec.y[0]
    values = frame[column].dropna()
    if values.empty:
        fail(f"column {column!r} has no values")
    axes.hist(values, bins=spec.bins or "auto", color=COLOURS[0], edgecolor="white", linewidth=0.7)
    middle = float(values.median())
    axes.axvline(middle, color=INK, linewidth=1.2, linestyle="--")
    top = axes.get_ylim()[1]
    axes.annotate(f"median {readable(middle, spec.unit)}", (middle, top), (4, -2), textcoords="offset points", va="top")
    measure(axes, "y", "")
    shorten(axes, "x", spec.unit)


def box(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Spread per group: middle half, median, outliers, and how many."""
    groups = [(str(name), rows[spec.y[0]].dropna()) for name, rows in frame.groupby(spec.x, sort=spec.sort == "x")]
    names = [f"{name}\nn={len(values)}" for name, values in groups]
    drawn = axes.boxplot([values for _, values in groups], tick_labels=names, patch_artist=True, widths=0.55)
    for patch in drawn["boxes"]:
        patch.set(facecolor="#CFE3F1", edgecolor=COLOURS[0])
    for middle in drawn["medians"]:
        middle.set(color=INK, linewidth=1.8)
    measure(axes, "y", spec.unit)


def heatmap(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """A table in which the shade is the figure."""
    wide = arranged(frame, spec)
    values = wide.to_numpy(dtype=float)
    diverging = np.nanmin(values) < 0 < np.nanmax(values)
    reach = float(np.nanmax(np.abs(values)))
    scale = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach} if diverging else {"cmap": "Blues"}
    picture = axes.imshow(values, aspect="auto", **scale)
    axes.set_xticks(range(len(wide.columns)), wide.columns)
    axes.set_yticks(range(len(wide)), [str(name) for name in wide.index])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if values.size <= 150 and spec.labels is not False:
        for (row, column), value in np.ndenumerate(values):
            if not np.isnan(value):
                dark = sum(picture.cmap(picture.norm(value))[:3]) < 1.6
                text = readable(float(value), spec.unit)
                axes.text(column, row, text, ha="center", va="center", color="white" if dark else INK, fontsize=9)
    else:
        axes.figure.colorbar(picture, ax=axes, shrink=0.8).outline.set_visible(False)


def donut(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Few parts of one whole, largest first, each named with its share."""
    spec.sort, spec.top = "desc", spec.top or MAX_SLICES - 1
    values = arranged(frame, spec).iloc[:, 0].fillna(0)
    if (values < 0).any() or values.sum() <= 0:
        fail("a donut needs parts that are not negative and add up to more than zero; use bar")
    names = [f"{name}  {value / values.sum():.0%}" for name, value in values.items()]
    shades = [*colours(len(values) - 1), QUIET] if str(values.index[-1]).startswith("Other (") else colours(len(values))
    axes.pie(values, labels=names, colors=shades, startangle=90, counterclock=False,
             wedgeprops={"width": 0.38, "edgecolor": "white"}, textprops={"fontsize": 10})  # fmt: skip
    axes.text(0, 0, readable(float(values.sum()), spec.unit), ha="center", va="center", fontsize=15, fontweight="bold")
    axes.set_aspect("equal")


def waterfall(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """How steps lead from nothing to a total."""
    values = arranged(frame, spec).iloc[:, 0].fillna(0)
    names, start = [*map(str, values.index), "Total"], 0.0
    for number, value in enumerate(values):
        axes.bar(number, value, 0.7, bottom=start, color=COLOURS[2] if value >= 0 else COLOURS[1])
        axes.plot([number - 0.35, number + 1.35], [start + value] * 2, color=SOFT, linewidth=0.8)
        place = max(start, start + value)
        axes.annotate(f"{'+' if value > 0 else ''}{readable(value, spec.unit)}", (number, place), (0, 3),
                      textcoords="offset points", ha="center", fontsize=9)  # fmt: skip
        start += value
    axes.bar(len(values), start, 0.7, color=COLOURS[0])
    axes.annotate(readable(start, spec.unit), (len(values), max(start, 0)), (0, 3), textcoords="offset points",
                  ha="center", fontsize=9, fontweight="bold")  # fmt: skip
    axes.axhline(0, color=QUIET, linewidth=1)
    axes.set_xticks(range(len(names)), names)
    measure(axes, "y", spec.unit)


def slope(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """From before to after, one line per row."""
    if len(spec.y) != 2:
        fail("a slope chart needs two y columns, before and after")
    wide = frame.set_index(spec.x)[spec.y]
    for number, (name, row) in enumerate(wide.iterrows()):
        chosen = not spec.highlight or str(name) in spec.highlight
        shade = COLOURS[number % len(COLOURS)] if chosen else QUIET
        axes.plot([0, 1], row, color=shade, marker="o", linewidth=2.2 if chosen else 1.4)
        before, after = readable(row.iloc[0], spec.unit), readable(row.iloc[1], spec.unit)
        axes.annotate(before, (0, row.iloc[0]), (-8, 0), textcoords="offset points", ha="right", va="center")
        axes.annotate(f"{after}  {name}", (1, row.iloc[1]), (8, 0), textcoords="offset points", va="center")
    axes.set_xticks([0, 1], spec.y)
    axes.set_xlim(-0.25, 1.6)
    axes.yaxis.set_visible(False)
    axes.spines[:].set_visible(False)


def dot(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Values as points on lines: a ranking whose axis need not start at zero, or a range between two columns."""
    wide = arranged(frame, spec)
    names, places = [str(name) for name in wide.index], range(len(wide))
    if len(wide.columns) > 1:
        axes.hlines(places, wide.min(axis=1), wide.max(axis=1), color=QUIET, linewidth=2)
    for name, colour in zip(wide.columns, colours(len(wide.columns)), strict=True):
        axes.scatter(wide[name], places, color=colour, s=60, label=name, zorder=3)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    measure(axes, "x", spec.unit)
    legend(axes, wide.columns)


def pareto(axes: Axes, frame: pd.DataFrame, spec: Spec) -> None:
    """Causes by size with their running share."""
    spec.sort = "desc"
    values = arranged(frame, spec).iloc[:, 0].fillna(0)
    if (values < 0).any() or values.sum() <= 0:
        fail("a Pareto chart needs values that are not negative and add up to more than zero")
    names = [str(name) for name in values.index]
    axes.bar(names, values, color=COLOURS[0], width=0.72)
    measure(axes, "y", spec.unit)
    share = axes.twinx()
    share.plot(names, values.cumsum() / values.sum() * 100, color=COLOURS[1], marker="o", linewidth=2)
    share.set_ylim(0, 105)
    share.axhline(80, color=QUIET, linewidth=1, linestyle="--")
    measure(share, "y", "%")
    share.grid(False)
    share.set_ylabel("running share")


KINDS: dict[str, Draw] = {
    "bar": bar,
    "horizontal-bar": horizontal_bar,
    "grouped-bar": grouped_bar,
    "stacked-bar": stacked_bar,
    "line": line,
    "area": area,
    "scatter": scatter,
    "bubble": scatter,
    "histogram": histogram,
    "box": box,
    "heatmap": heatmap,
    "donut": donut,
    "waterfall": waterfall,
    "slope": slope,
    "dot": dot,
    "pareto": pareto,
}


def labelled(spec: Spec, count: int) -> bool:
    """Whether bars carry their figures."""
    return spec.labels if spec.labels is not None else count <= MAX_LABELLED_BARS


def legend(axes: Axes, names: list[str] | pd.Index) -> None:
    """A legend, unless there is only one thing to name."""
    if len(names) > 1:
        made = axes.legend(loc="upper left", bbox_to_anchor=(0, 1.1), ncols=min(len(names), 5), borderaxespad=0)
        for handle in made.legend_handles:
            if isinstance(handle, PathCollection):
                handle.set_sizes([36])


def in_time(wide: pd.DataFrame) -> pd.DataFrame:
    """The same with x as time, in its order, where x are dates."""
    if not pd.api.types.is_numeric_dtype(wide.index):
        try:
            wide.index = pd.to_datetime(wide.index, format="ISO8601")
        except (ValueError, TypeError):
            return wide.set_axis([str(name) for name in wide.index])
        return wide.sort_index()
    return wide.sort_index()


def time_axis(axes: Axes, wide: pd.DataFrame) -> None:
    """Dates written no longer than needed."""
    if isinstance(wide.index, pd.DatetimeIndex):
        places = dates.AutoDateLocator(minticks=1, maxticks=max(2, min(8, len(wide))))
        axes.xaxis.set_major_locator(places)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(places))


def name_ends(axes: Axes, wide: pd.DataFrame, shades: list[str]) -> None:
    """Names at the ends of lines, moved apart where they would touch."""
    if len(wide.columns) == 1:
        return
    ends = [(name, wide[name].dropna(), shade) for name, shade in zip(wide.columns, shades, strict=True)]
    low, high = axes.get_ylim()
    gap, last = (high - low) * 0.055, -np.inf
    for name, values, shade in sorted((end for end in ends if len(end[1])), key=lambda end: end[1].iloc[-1]):
        place = max(float(values.iloc[-1]), last + gap)
        axes.annotate(name, (values.index[-1], place), (8, 0), textcoords="offset points", va="center",
                      color=INK if shade == QUIET else shade, fontweight="bold", annotation_clip=False)  # fmt: skip
        last = place
