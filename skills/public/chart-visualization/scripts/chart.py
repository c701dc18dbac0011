"""Draws a chart as PNG or SVG from a specification in JSON or YAML, or from options alone."""

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from drawing import KINDS
from matplotlib.axes import Axes
from spec import Spec, fail, load, nearest, read_spec
from style import INK, SOFT, figure, head, measure, prepare, readable

NEEDS_X = {name for name in KINDS if name != "histogram"}
ONE_AXIS = {"bar", "horizontal-bar", "waterfall", "donut", "pareto", "histogram", "box"}
DPI = 200


def main() -> None:
    """Read the command line, draw, tell what was drawn."""
    arguments = command_line().parse_args()
    if arguments.list:
        print("\n".join(f"{name:15} {draw.__doc__}" for name, draw in KINDS.items()))
        return
    options = ("type", "data", "x", "y", "series", "aggregate", "sort", "title", "subtitle", "unit", "source")
    spec, base = read_spec(arguments.spec, {name: getattr(arguments, name) for name in options})
    if arguments.out is None:
        fail("say where to write with --out chart.png or --out chart.svg")
    if arguments.out.suffix.lower() not in {".png", ".svg"}:
        fail(f"charts are written as .png or .svg, not as {arguments.out.suffix or 'a file without an ending'!r}")
    fits(spec)
    frame = load(spec, base)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        facts = draw(spec, frame, arguments.out)
    facts["notes"] += sorted({str(item.message) for item in caught if "Glyph" in str(item.message)})
    print(json.dumps(facts, indent=2, ensure_ascii=False))


def command_line() -> argparse.ArgumentParser:
    """What may be asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", nargs="?", type=Path, help="specification in JSON or YAML")
    parser.add_argument("--out", type=Path, help="the picture: .png or .svg")
    parser.add_argument("--list", action="store_true", help="list the kinds of charts")
    for name in ("type", "data", "x", "y", "series", "aggregate", "sort", "title", "subtitle", "unit", "source"):
        parser.add_argument(f"--{name}", help=f"`{name}` of the specification")
    return parser


def fits(spec: Spec) -> None:
    """Refuse what cannot be drawn before any data is read."""
    if spec.type not in KINDS:
        fail(f"there is no chart {spec.type!r}{nearest(spec.type, list(KINDS))}")
    if not spec.y:
        fail("`y` is missing: name the column of figures")
    if spec.type in NEEDS_X and not spec.x:
        fail(f"a {spec.type} chart needs `x`")
    if spec.type == "bubble" and not spec.size_by:
        fail("a bubble chart needs `size_by`")
    if spec.type in ONE_AXIS and (len(spec.y) > 1 or spec.series):
        fail(f"a {spec.type} chart shows one column; use grouped-bar, stacked-bar or line for several")
    if spec.log and "bar" in spec.type:
        fail("bars on a logarithmic axis mislead, for their length means nothing; use dot or line")


def draw(spec: Spec, frame: pd.DataFrame, target: Path) -> dict[str, Any]:
    """Draw and save; what was drawn, for whoever cannot see it."""
    prepare()
    made, axes = figure((spec.size[0], spec.size[1]))
    KINDS[spec.type](axes, frame.copy(), spec)
    if spec.log:
        axes.set_yscale("log")
        measure(axes, "y", spec.unit)
    add_marks(axes, spec)
    axes.set_xlabel(spec.x_label)
    axes.set_ylabel(spec.y_label)
    if axes.xaxis.get_visible() and spec.type != "horizontal-bar":
        turn_crowded(axes, spec.size[0])
    head(made, spec.title, spec.subtitle, spec.source)
    alt = spec.alt or described(spec, frame)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix.lower() == ".svg":
        made.savefig(target, metadata={"Title": spec.title or spec.type, "Description": alt, "Date": None})
    else:
        made.savefig(target, dpi=DPI, metadata={"Title": spec.title or spec.type, "Description": alt})
    return {"chart": spec.type, "file": str(target), "rows": len(frame), "alt": alt, "notes": doubts(spec, frame)}


def add_marks(axes: Axes, spec: Spec) -> None:
    """Lines to compare with and words at points."""
    for mark in spec.reference_lines:
        if "y" in mark:
            axes.axhline(mark["y"], color=SOFT, linewidth=1.1, linestyle="--")
            axes.annotate(mark.get("text", ""), (1, mark["y"]), (0, 3), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="right", color=SOFT, fontsize=9)  # fmt: skip
        elif "x" in mark:
            place = pd.to_datetime(mark["x"]) if isinstance(mark["x"], str) and mark["x"][:4].isdigit() else mark["x"]
            axes.axvline(place, color=SOFT, linewidth=1.1, linestyle="--")
            axes.annotate(mark.get("text", ""), (place, 1), (4, -2), xycoords=("data", "axes fraction"),
                          textcoords="offset points", va="top", color=SOFT, fontsize=9)  # fmt: skip
    for mark in spec.annotations:
        place = pd.to_datetime(mark["x"]) if isinstance(mark["x"], str) and mark["x"][:4].isdigit() else mark["x"]
        axes.annotate(mark["text"], (place, mark["y"]), (12, 18), textcoords="offset points", fontsize=9, color=INK,
                      arrowprops={"arrowstyle": "-", "color": SOFT})  # fmt: skip


def turn_crowded(axes: Axes, width: float) -> None:
    """Slant names that would run into each other."""
    names = [label.get_text() for label in axes.get_xticklabels()]
    room = width * 11 / max(len(names), 1)
    if any(len(name.split("\n")[0]) > room for name in names):
        axes.tick_params(axis="x", rotation=35)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")


def described(spec: Spec, frame: pd.DataFrame) -> str:
    """The chart in words, from its figures."""
    column = spec.y[0]
    values = frame[column].dropna()
    start = f"{spec.type} chart of {', '.join(spec.y)}" + (f" by {spec.x}" if spec.x else "")
    start += f" and {spec.series}" if spec.series else ""
    if values.empty:
        return f"{start}; no values."
    low, high = readable(float(values.min()), spec.unit), readable(float(values.max()), spec.unit)
    where = ""
    if spec.x and not spec.aggregate:
        where = f" (lowest {frame.loc[values.idxmin(), spec.x]}, highest {frame.loc[values.idxmax(), spec.x]})"
    return f"{start}: {len(values)} values from {low} to {high}{where}."


def doubts(spec: Spec, frame: pd.DataFrame) -> list[str]:
    """What a careful reader would object to."""
    found = [
        f"column {name!r} lacks {int(frame[name].isna().sum())} values" for name in spec.y if frame[name].isna().any()
    ]
    if not spec.title:
        found.append("no title: say what the chart shows, best as its message")
    many = frame[spec.series].nunique() if spec.series else len(spec.y)
    if many > 6 and not spec.highlight and spec.type != "heatmap":
        found.append(f"{many} series are hard to tell apart: highlight some, or use several charts")
    if spec.type == "bar" and frame[spec.x].nunique() > 12:
        found.append("many bars: horizontal-bar or `top` reads better")
    if spec.type == "donut" and frame[spec.x].nunique() > 6:
        found.append("small parts were folded into Other; a horizontal-bar shows them all")
    return found


if __name__ == "__main__":
    sys.exit(main())
