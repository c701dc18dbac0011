"""Looks through any PowerPoint deck for what a careful colleague would find: overflow, empty slides, tiny text."""

import argparse
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from measure import height
from pptx import Presentation
from pptx.enum.shapes import MSO_SHAPE_TYPE
from pptx.exc import PackageNotFoundError
from pptx.util import Emu

SMALLEST = 12
MOST_WORDS = 90
USUAL = 18


def main() -> None:
    """Check a deck; exit 3 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("deck", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--notes", action="store_true", help="every slide must have speaker notes")
    arguments = parser.parse_args()
    if not arguments.deck.is_file():
        fail(f"there is no file {str(arguments.deck)!r}")
    try:
        deck = Presentation(str(arguments.deck))
    except (PackageNotFoundError, zipfile.BadZipFile, KeyError, ValueError):
        fail(f"{arguments.deck.name} is no PowerPoint deck")
    found = []
    for number, slide in enumerate(deck.slides, 1):
        found += [{"slide": number, "problem": text} for text in problems(slide, deck, arguments.notes)]
    titles = [title(slide) for slide in deck.slides]
    found += [
        {"slide": number, "problem": f"the title {text!r} occurs before"}
        for number, text in enumerate(titles, 1)
        if text and text in titles[: number - 1]
    ]
    if arguments.json:
        print(
            json.dumps({"slides": len(deck.slides), "titles": titles, "problems": found}, indent=2, ensure_ascii=False)
        )
    else:
        print(
            "\n".join(f"slide {item['slide']}: {item['problem']}" for item in found)
            or f"{len(deck.slides)} slides, no problems"
        )
    sys.exit(3 if found else 0)


def problems(slide: Any, deck: Any, notes: bool) -> list[str]:
    """What is wrong with one slide."""
    found = []
    shapes = list(slide.shapes)
    texts = [shape for shape in shapes if shape.has_text_frame and shape.text_frame.text.strip()]
    pictures = [shape for shape in shapes if not shape.has_text_frame and shape.shape_type != MSO_SHAPE_TYPE.LINE]
    numbers = [
        shape for shape in texts if shape.is_placeholder and "SLIDE_NUMBER" in str(shape.placeholder_format.type)
    ]
    if not title(slide):
        found.append("it has no title")
    opening = slide.slide_layout.name in {"Section Header", "Title Slide"}
    if len(texts) - len(numbers) - bool(title(slide)) < 1 and not pictures and not opening:
        found.append("it is empty but for its title")
    words = sum(len(shape.text_frame.text.split()) for shape in texts)
    if words > MOST_WORDS:
        found.append(f"{words} words are more than an audience reads; {MOST_WORDS} at most")
    for shape in shapes:
        found += shape_problems(shape, deck)
    if notes and not (slide.has_notes_slide and slide.notes_slide.notes_text_frame.text.strip()):
        found.append("it has no speaker notes")
    return found


def shape_problems(shape: Any, deck: Any) -> list[str]:
    """What is wrong with one thing on a slide."""
    found = []
    left, top, wide, high = (int(value or 0) for value in (shape.left, shape.top, shape.width, shape.height))
    slack = 9525
    if (
        left < -slack
        or top < -slack
        or left + wide > deck.slide_width + slack
        or top + high > deck.slide_height + slack
    ):
        found.append(f"{shape.name!r} reaches beyond the slide")
    if shape.is_placeholder and shape.has_text_frame and not shape.text_frame.text.strip():
        found.append(f"the placeholder {shape.name!r} is empty and shows its prompt when edited")
    if shape.shape_type == MSO_SHAPE_TYPE.PICTURE and not shape._element.nvPicPr.cNvPr.get("descr"):
        found.append(f"the picture {shape.name!r} has no alternative text")
    if shape.has_text_frame and shape.text_frame.text.strip() and wide and high:
        found += text_problems(shape, Emu(wide).inches, Emu(high).inches)
    return found


def text_problems(shape: Any, wide: float, high: float) -> list[str]:
    """Text that does not fit or cannot be read from the last row."""
    frame, placed, smallest = shape.text_frame, [], float("inf")
    for paragraph in frame.paragraphs:
        own = [run.font.size.pt for run in paragraph.runs if run.font.size]
        size = max(own, default=paragraph.font.size.pt if paragraph.font.size else usual(shape))
        placed.append((paragraph.text, size, 0.3 + 0.35 * paragraph.level if shape.is_placeholder else 0.0))
        if paragraph.text.strip():
            smallest = min(smallest, size)
    found = []
    needed = height(placed, max(wide - 0.1, 0.1))
    if needed > high * 1.1 + 0.1:
        start = shape.text_frame.text[:40]
        found.append(
            f"text overflows {shape.name!r}: it needs about {needed:.1f} in, there are {high:.1f} ({start!r} …)"
        )
    is_number = shape.is_placeholder and "SLIDE_NUMBER" in str(shape.placeholder_format.type)
    if smallest < SMALLEST and not is_number:
        found.append(f"text of {smallest:g} pt in {shape.name!r} is too small")
    return found


def usual(shape: Any) -> float:
    """The size text has when nothing is said."""
    kind = str(shape.placeholder_format.type) if shape.is_placeholder else ""
    return 28 if "TITLE" in kind and "SUB" not in kind else 12 if "SLIDE_NUMBER" in kind else USUAL


def title(slide: Any) -> str:
    """The title of a slide."""
    shape = slide.shapes.title
    return shape.text_frame.text.strip() if shape is not None else ""


def fail(message: str) -> None:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
