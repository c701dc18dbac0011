"""Makes a PowerPoint deck from an outline in YAML or JSON."""

import argparse
import difflib
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import yaml
from slides import Builder, Unfit
from theme import THEMES, Theme, new_deck

KEYS = {"title", "author", "theme", "accent", "slides", "language"}


def main() -> None:
    """Read the outline, make every slide, or say which one cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outline", type=Path, help="outline in YAML or JSON")
    parser.add_argument("--out", type=Path, required=True, help="the deck, .pptx")
    arguments = parser.parse_args()
    if arguments.out.suffix.lower() != ".pptx":
        fail(f"decks are written as .pptx, not as {arguments.out.suffix or 'a file without an ending'!r}")
    outline = read(arguments.outline)
    deck = new_deck(theme_of(outline))
    deck.core_properties.title = str(outline.get("title") or "")
    deck.core_properties.author = str(outline.get("author") or "")
    builder = Builder(deck, arguments.outline.parent)
    problems = []
    for number, slide in enumerate(outline["slides"], 1):
        try:
            builder.add(checked(slide, builder))
        except Unfit as problem:
            problems.append(f"slide {number}: {problem}")
    if problems:
        fail("; ".join(problems))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    deck.save(str(arguments.out))
    print(f"{len(deck.slides)} slides written to {arguments.out}")


def read(path: Path) -> dict[str, Any]:
    """The outline."""
    if not path.is_file():
        fail(f"there is no outline {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
        outline = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as problem:
        fail(f"{path.name} cannot be read: {' '.join(str(problem).split())}")
    if not isinstance(outline, dict) or not isinstance(outline.get("slides"), list) or not outline["slides"]:
        fail(f"{path.name} must have a list `slides`")
    for key in outline:
        if key not in KEYS:
            fail(f"an outline has no key {key!r}; it has {', '.join(sorted(KEYS))}")
    return outline


def theme_of(outline: dict[str, Any]) -> Theme:
    """The theme asked for, with a first colour of one's own."""
    name = str(outline.get("theme") or "ink")
    if name not in THEMES:
        fail(f"there is no theme {name!r}; there are {', '.join(THEMES)}")
    theme = THEMES[name]
    accent = str(outline.get("accent") or "").lstrip("#").upper()
    if not accent:
        return theme
    if len(accent) != 6 or set(accent) - set("0123456789ABCDEF"):
        fail(f"accent must be a colour such as '#0B5CAD', not {outline['accent']!r}")
    return Theme(theme.ground, theme.ink, theme.soft, theme.tint, (accent, *theme.accents[1:]), theme.head, theme.body)


def checked(slide: Any, builder: Builder) -> dict[str, Any]:
    """A slide with a layout that exists and a title."""
    if not isinstance(slide, dict):
        raise Unfit("it must consist of keys and values")
    layout = str(slide.setdefault("layout", "bullets"))
    if layout not in builder.layouts:
        near = difflib.get_close_matches(layout, builder.layouts, n=1)
        raise Unfit(
            f"there is no layout {layout!r}; "
            + (f"did you mean {near[0]!r}?" if near else f"there are {', '.join(builder.layouts)}")
        )
    if not str(slide.get("title") or "").strip():
        raise Unfit("it has no title")
    return slide


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
