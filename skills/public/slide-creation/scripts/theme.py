"""How a deck looks: colours and fonts of its theme, and where things stand on a slide."""

import re
from dataclasses import dataclass

from pptx import Presentation
from pptx.enum.dml import MSO_THEME_COLOR
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.presentation import Presentation as Deck
from pptx.slide import SlideLayout
from pptx.util import Inches

WIDTH, HEIGHT = 13.333, 7.5
LEFT, TOP, ROOM, BOTTOM = 0.75, 1.75, 11.83, 6.75
TITLE = (LEFT, 0.5, ROOM, 1.0)
CONTENT = (LEFT, TOP, ROOM, BOTTOM - TOP)
KEPT = ("Title Slide", "Title and Content", "Section Header", "Two Content", "Title Only")


@dataclass(frozen=True)
class Theme:
    """Colours as six hexadecimal digits, and two fonts that every office program has or replaces well."""

    ground: str
    ink: str
    soft: str
    tint: str
    accents: tuple[str, str, str, str, str, str]
    head: str
    body: str


THEMES = {
    "ink": Theme(
        *("FFFFFF", "17202E", "56606F", "EEF2F7"),
        ("0B5CAD", "D55E00", "0B8A65", "B0568D", "4A6A8A", "8A6D00"),
        *("Calibri", "Calibri"),
    ),
    "paper": Theme(
        *("FBF8F2", "2B2622", "6A6058", "F0E9DC"),
        ("8C3B1F", "2F6175", "6B7A2A", "A8741A", "5A4A78", "3F3A36"),
        *("Georgia", "Calibri"),
    ),
    "night": Theme(
        *("10161F", "F2F5F9", "A9B4C2", "1C2633"),
        ("5CB3FF", "FFA552", "4FD1A5", "F08CC0", "A7B8FF", "E5D352"),
        *("Calibri", "Calibri"),
    ),
}


def new_deck(theme: Theme) -> Deck:
    """An empty deck of wide slides in a theme."""
    deck = Presentation()
    deck.slide_width, deck.slide_height = Inches(WIDTH), Inches(HEIGHT)
    colour(deck, theme)
    for layout in list(deck.slide_layouts):
        if layout.name not in KEPT:
            deck.slide_layouts.remove(layout)
    place(deck.slide_master.placeholders, {0: TITLE, 1: CONTENT})
    sizes(deck)
    places = {
        "Title Slide": {0: (LEFT, 2.2, 10.5, 1.9), 1: (LEFT, 4.5, 10.5, 1.2)},
        "Title and Content": {0: TITLE, 1: CONTENT},
        "Section Header": {0: (LEFT, 2.6, 10.5, 1.5), 1: (LEFT, 4.5, 10.5, 1.2)},
        "Two Content": {0: TITLE, 1: half(0), 2: half(1)},
        "Title Only": {0: TITLE},
    }
    for layout in deck.slide_layouts:
        place(layout.placeholders, places[layout.name])
        settle(layout)
    return deck


def half(side: int) -> tuple[float, float, float, float]:
    """The left or the right half of the content."""
    room = (ROOM - 0.5) / 2
    return (LEFT + side * (room + 0.5), TOP, room, BOTTOM - TOP)


def place(placeholders: object, places: dict[int, tuple[float, float, float, float]]) -> None:
    """Move placeholders; those of date and foot go, the number to the corner."""
    for shape in list(placeholders):  # type: ignore[call-overload]
        index = shape.placeholder_format.idx
        kind = str(shape.placeholder_format.type)
        if index in places:
            box = places[index]
        elif "SLIDE_NUMBER" in kind:
            box = (WIDTH - 1.75, 6.95, 1.0, 0.35)
        else:
            shape._element.getparent().remove(shape._element)
            continue
        shape.left, shape.top, shape.width, shape.height = (Inches(value) for value in box)


def sizes(deck: Deck) -> None:
    """Titles to the left and bold, as the master says for all."""
    styles = deck.slide_master._element.find(".//{*}titleStyle/{*}lvl1pPr")
    styles.set("algn", "l")
    run = styles.find("{*}defRPr")
    run.set("sz", "2800")
    run.set("b", "1")


def settle(layout: SlideLayout) -> None:
    """Where text stands in its box, on openings and sections larger."""
    opening = layout.name in {"Title Slide", "Section Header"}
    for shape in layout.placeholders:
        frame = shape.text_frame
        properties = frame._txBody.bodyPr
        for child in list(properties):
            properties.remove(child)
        properties.set("lIns", "0")
        if shape.placeholder_format.idx == 0:
            properties.set("anchor", "b" if opening else "ctr")
        else:
            properties.set("anchor", "t")
        if opening:
            for level in shape._element.iterfind(".//{*}lstStyle/{*}lvl1pPr"):
                level.set("algn", "l")
                run = level.find("{*}defRPr")
                if run is not None:
                    run.set("sz", "4000" if shape.placeholder_format.idx == 0 else "2000")
                    run.attrib.pop("cap", None)


def colour(deck: Deck, theme: Theme) -> None:
    """Write colours and fonts into the theme, so that charts and later slides follow them."""
    part = deck.slide_master.part.part_related_by(RELATIONSHIP_TYPE.THEME)
    text = part.blob.decode("utf-8")
    values = {"dk1": theme.ink, "lt1": theme.ground, "dk2": theme.soft, "lt2": theme.tint, "hlink": theme.accents[0]}
    values |= {f"accent{number}": value for number, value in enumerate(theme.accents, 1)}
    for name, value in values.items():
        text = re.sub(rf"(<a:{name}>).*?(</a:{name}>)", rf'\g<1><a:srgbClr val="{value}"/>\g<2>', text, flags=re.DOTALL)
    for kind, name in (("majorFont", theme.head), ("minorFont", theme.body)):
        text = re.sub(rf'(<a:{kind}>\s*<a:latin typeface=")[^"]*', rf"\g<1>{name}", text)
    part._blob = text.encode("utf-8")
    fill = deck.slide_master.background.fill
    fill.solid()
    fill.fore_color.theme_color = MSO_THEME_COLOR.BACKGROUND_1
