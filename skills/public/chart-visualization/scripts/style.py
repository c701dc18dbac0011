"""How charts look: quiet axes, colours that stay apart for colour-blind readers, figures people can read."""

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.ticker import FuncFormatter

# Okabe and Ito's set, the yellow left out since it vanishes on white, dark enough to be told from the background.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6B7280", "#000000")
QUIET = "#B8C0CC"
INK, SOFT, GRID = "#1F2937", "#5B6472", "#E5E7EB"
ASIAN = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Micro Hei", "Droid Sans Fallback")
SCALES = ((1e12, 1e12, "T"), (1e9, 1e9, "B"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
"""From which size on figures are shortened, by what, and the letter that says so."""


def prepare() -> None:
    """Set the defaults of everything drawn."""
    present = set(get_font_names())
    matplotlib.rcParams.update(
        {
            "font.family": ["DejaVu Sans", *(name for name in ASIAN if name in present)],
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": SOFT,
            "axes.edgecolor": QUIET,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "axes.titlelocation": "left",
            "xtick.color": SOFT,
            "ytick.color": SOFT,
            "legend.frameon": False,
            "svg.fonttype": "none",  # text stays text: searchable, and read aloud
            "svg.hashsalt": "chart",  # the same chart gives the same file
            "figure.facecolor": "white",
        }
    )


def figure(size: tuple[float, float]) -> tuple[Figure, Axes]:
    """An empty chart."""
    made = Figure(figsize=size, layout="constrained")
    return made, made.add_subplot()


def colours(count: int) -> list[str]:
    """As many colours as there are series."""
    return [COLOURS[number % len(COLOURS)] for number in range(count)]


def emphasised(names: list[str], highlight: list[str], usual: str = COLOURS[0]) -> list[str]:
    """One colour for all, or grey for all but those to be looked at."""
    if not highlight:
        return [usual] * len(names)
    return [usual if name in highlight else QUIET for name in names]


def readable(value: float, unit: str = "", largest: float | None = None) -> str:
    """A figure as people write it: 1.2M, 340, 0.25. Those of one axis are shortened alike, as its largest is."""
    size = abs(value if largest is None else largest)
    for start, scale, letter in SCALES:
        if size >= start and value:
            text = f"{value / scale:.3g}{letter}" if abs(value / scale) < 1000 else f"{value / scale:,.0f}{letter}"
            break
    else:
        text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    if unit in {"$", "€", "£", "¥"}:
        return text.replace("-", f"-{unit}", 1) if text.startswith("-") else unit + text
    return text + (unit if unit == "%" else f" {unit}" if unit else "")


def measure(axes: Axes, axis: str, unit: str) -> None:
    """Readable ticks and faint lines along the axis of values."""
    shorten(axes, axis, unit)
    axes.grid(True, axis="y" if axis == "y" else "x", color=GRID, linewidth=0.8)
    (axes.yaxis if axis == "y" else axes.xaxis).set_tick_params(length=0)
    axes.spines["left" if axis == "y" else "bottom"].set_visible(False)


def shorten(axes: Axes, axis: str, unit: str) -> None:
    """Readable ticks."""
    which = axes.yaxis if axis == "y" else axes.xaxis

    def tick(value: float, _: int) -> str:
        return readable(value, unit, max(map(abs, which.get_view_interval())))

    which.set_major_formatter(FuncFormatter(tick))


def head(made: Figure, title: str, subtitle: str, source: str) -> None:
    """The message above, what is measured below it, where it comes from at the foot."""
    width = made.get_figwidth()
    lines = wrapped(title, int(width * 8.6))
    if subtitle:
        made.suptitle(lines + "\n", x=0.01, ha="left", fontsize=14, fontweight="bold")
        under = made.text(0.01, 1, subtitle, ha="left", va="top", fontsize=10, color=SOFT)
        under.set_in_layout(False)
        made.draw_without_rendering()
        box = made._suptitle.get_window_extent() if made._suptitle else None
        if box is not None:
            under.set_y((box.y0 + 14) / made.bbox.height)
    elif title:
        made.suptitle(lines, x=0.01, ha="left", fontsize=14, fontweight="bold")
    if source:
        made.supxlabel(f"Source: {source}", x=0.01, ha="left", fontsize=8, color=SOFT)


def wrapped(text: str, width: int) -> str:
    """Text broken into lines at blanks."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) + 1 > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])
