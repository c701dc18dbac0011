"""Reads the styles of a page far enough to know which colour stands on which ground."""

import re
from dataclasses import dataclass, field

from bs4 import BeautifulSoup, Tag
from soupsieve.util import SelectorSyntaxError

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,\s*([^()]*))?\)")
HEX = re.compile(r"#([0-9a-f]{3,8})\b", re.IGNORECASE)
FUNCTION = re.compile(r"(rgba?|hsla?)\(([^)]*)\)", re.IGNORECASE)
STATE = re.compile(
    r"::?(hover|focus|focus-visible|focus-within|active|visited|before|after|placeholder|selection|marker|disabled|checked|target)\b"
)
NAMES = {
    "black": (0, 0, 0), "white": (255, 255, 255), "red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255),
    "gray": (128, 128, 128), "grey": (128, 128, 128), "silver": (192, 192, 192), "navy": (0, 0, 128),
    "yellow": (255, 255, 0), "orange": (255, 165, 0), "purple": (128, 0, 128), "teal": (0, 128, 128),
    "maroon": (128, 0, 0), "lightgray": (211, 211, 211), "lightgrey": (211, 211, 211), "darkgray": (169, 169, 169),
}  # fmt: skip

Colour = tuple[int, int, int]


@dataclass
class Look:
    """What counts for reading one element."""

    ink: Colour = (0, 0, 0)
    ground: Colour | None = (255, 255, 255)
    """None where a picture or gradient lies behind the text."""
    points: float = 16.0
    bold: bool = False


@dataclass
class Sheet:
    """The rules of a page outside of media queries, and its variables."""

    rules: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def read_sheet(css: str) -> Sheet:
    """Rules in their order. Those in @media and the like are left out, for they hold only sometimes."""
    sheet = Sheet()
    for selector, body in blocks(COMMENT.sub("", css)):
        if selector.startswith("@"):
            if selector.startswith("@layer"):
                inner = read_sheet(body)
                sheet.rules += inner.rules
                sheet.variables |= inner.variables
            continue
        values = {}
        for line in body.split(";"):
            name, colon, value = line.partition(":")
            if colon:
                values[name.strip().lower()] = value.replace("!important", "").strip()
        sheet.rules.append((selector, values))
        if selector in {":root", "html", "body", ":root, html"}:
            sheet.variables |= {name: value for name, value in values.items() if name.startswith("--")}
    return sheet


def blocks(css: str) -> list[tuple[str, str]]:
    """Selector and content of every block of the first level."""
    found, depth, start, selector = [], 0, 0, ""
    for place, sign in enumerate(css):
        if sign == "{":
            if depth == 0:
                selector, start = css[start:place].strip().rpartition(";")[2].strip(), place + 1
            depth += 1
        elif sign == "}" and depth:
            depth -= 1
            if depth == 0:
                found.append((selector, css[start:place]))
                start = place + 1
    return found


def looks(soup: BeautifulSoup, sheet: Sheet) -> dict[int, Look]:
    """The look of every element, by its identity."""
    declared: dict[int, dict[str, str]] = {}
    for selector, values in sheet.rules:
        parts = [part.strip() for part in selector.split(",")]
        for part in parts:
            if STATE.search(part):
                continue
            try:
                chosen = soup.select(part)
            except (SelectorSyntaxError, NotImplementedError, ValueError):
                continue
            for element in chosen:
                declared.setdefault(id(element), {}).update(values)
    made: dict[int, Look] = {}
    root = soup.find("html")
    if isinstance(root, Tag):
        descend(root, Look(), declared, sheet.variables, made)
    return made


def descend(
    element: Tag, above: Look, declared: dict[int, dict[str, str]], variables: dict[str, str], made: dict[int, Look]
) -> None:
    """Hand looks down the tree."""
    values = dict(declared.get(id(element), {}))
    for line in str(element.get("style") or "").split(";"):
        name, colon, value = line.partition(":")
        if colon:
            values[name.strip().lower()] = value.strip()
    own = variables | {name: value for name, value in values.items() if name.startswith("--")}
    ground = above.ground
    painted = values.get("background-color") or values.get("background") or ""
    painted = resolved(painted, own)
    if "url(" in painted or "gradient(" in painted:
        ground = None
    elif (colour := colour_of(painted, ground)) is not None:
        ground = colour
    if "url(" in values.get("background-image", "") or "gradient(" in values.get("background-image", ""):
        ground = None
    ink = colour_of(resolved(values.get("color", ""), own), ground) or above.ink
    weight = values.get("font-weight", "")
    bold = above.bold or element.name in {"b", "strong", "h1", "h2", "h3", "th"}
    if weight:
        bold = weight in {"bold", "bolder"} or (weight.isdigit() and int(weight) >= 700)
    here = Look(ink, ground, size_of(resolved(values.get("font-size", ""), own), element.name, above.points), bold)
    made[id(element)] = here
    for child in element.find_all(recursive=False):
        if isinstance(child, Tag):
            descend(child, here, declared, own, made)


def resolved(value: str, variables: dict[str, str]) -> str:
    """A value with its variables put in."""
    for _ in range(5):
        match = VARIABLE.search(value)
        if not match:
            return value
        value = value.replace(match[0], variables.get(match[1], match[2] or ""))
    return value


def colour_of(text: str, below: Colour | None) -> Colour | None:
    """The first colour in a value, mixed with what lies below where it is translucent."""
    text = text.strip().lower()
    if not text or text in {"inherit", "transparent", "none", "currentcolor", "initial", "unset"}:
        return None
    channels: tuple[float, ...] | None = None
    if match := HEX.search(text):
        digits = match[1] if len(match[1]) > 4 else "".join(sign * 2 for sign in match[1])
        channels = tuple(int(digits[place : place + 2], 16) for place in range(0, len(digits) - 1, 2))
        if len(channels) == 4:
            channels = (*channels[:3], channels[3] / 255)
    elif match := FUNCTION.search(text):
        channels = from_function(match[1], re.findall(r"-?[\d.]+%?", match[2]))
    else:
        channels = next((NAMES[word] for word in re.findall(r"[a-z]+", text) if word in NAMES), None)
    if channels is None or len(channels) < 3:
        return None
    share = channels[3] if len(channels) > 3 else 1.0
    under = below or (255, 255, 255)
    red, green, blue = (round(c * share + u * (1 - share)) for c, u in zip(channels[:3], under, strict=True))
    return (red, green, blue)


def from_function(name: str, parts: list[str]) -> tuple[float, ...] | None:
    """Channels of rgb() and hsl()."""
    if len(parts) < 3:
        return None
    share = [float(part.rstrip("%")) / (100 if part.endswith("%") else 1) for part in parts[3:4]]
    if name.startswith("rgb"):
        return (*(float(part.rstrip("%")) * (2.55 if part.endswith("%") else 1) for part in parts[:3]), *share)
    hue, saturation, light = float(parts[0]) % 360, float(parts[1].rstrip("%")) / 100, float(parts[2].rstrip("%")) / 100
    reach = saturation * min(light, 1 - light)

    def channel(shift: int) -> float:
        place = (shift + hue / 30) % 12
        return 255 * (light - reach * max(-1, min(place - 3, 9 - place, 1)))

    return (channel(0), channel(8), channel(4), *share)


def size_of(text: str, name: str, above: float) -> float:
    """The size of text in pixels; of `clamp` the smallest."""
    if not text:
        return {"h1": 32.0, "h2": 24.0, "h3": 18.7, "small": above * 0.83}.get(name, above)
    match = re.search(r"([\d.]+)(px|rem|em|%|pt)", text)
    if not match:
        return above
    value = float(match[1])
    return {"px": value, "rem": value * 16, "em": value * above, "%": value / 100 * above, "pt": value * 4 / 3}[
        match[2]
    ]


def contrast(one: Colour, other: Colour) -> float:
    """How far two colours are apart, as the accessibility guidelines define it: 1 to 21."""

    def brightness(colour: Colour) -> float:
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((brightness(one), brightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
