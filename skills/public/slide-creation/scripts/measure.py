"""How much room text takes, measured with a font that is a little wider than those of slides."""

import importlib.util
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

NARROWER = 0.9
"""DejaVu is wider than Calibri, Segoe or Georgia; this leaves a margin all the same."""
LINE = 1.2


@lru_cache
def font() -> ImageFont.FreeTypeFont:
    """The font to measure with, at 100 points."""
    found = importlib.util.find_spec("matplotlib")
    if found is None or found.origin is None:
        return ImageFont.load_default(100)  # type: ignore[return-value]
    return ImageFont.truetype(str(Path(found.origin).parent / "mpl-data/fonts/ttf/DejaVuSans.ttf"), 100)


def width(text: str, points: float) -> float:
    """The length of a line in inches."""
    return font().getlength(text) / 100 * points / 72 * NARROWER


def lines(text: str, points: float, room: float) -> int:
    """Into how many lines text breaks within `room` inches."""
    count = 0
    for paragraph in text.split("\n"):
        line, count = "", count + 1
        for word in paragraph.split():
            longer = f"{line} {word}".strip()
            if line and width(longer, points) > room:
                count, line = count + 1, word
            else:
                line = longer
        if width(line, points) > room and " " not in line:
            count += int(width(line, points) / room)
    return count


def height(paragraphs: list[tuple[str, float, float]], room: float) -> float:
    """The height in inches of paragraphs, each its text, its size and its indent in inches."""
    return sum(
        lines(text, points, room - indent) * points * LINE / 72 + points * 0.4 / 72
        for text, points, indent in paragraphs
    )


def largest(paragraphs: list[tuple[str, int]], room: tuple[float, float], sizes: tuple[int, ...]) -> int | None:
    """The largest size at which paragraphs (text and level) fit into width and height, if one does."""
    for size in sizes:
        placed = [(text, size - 2 * level, 0.3 + 0.35 * level) for text, level in paragraphs]
        if height(placed, room[0]) <= room[1]:
            return size
    return None
