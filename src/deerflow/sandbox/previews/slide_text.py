"""Colours of a theme, and the text of shapes as XHTML, with the styles that it inherits.

It runs in the sandbox: previews.py passes its text after the text of read_document.py.
"""

import colorsys
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import Any

from deerflow.sandbox.previews.read_document import A, clean_text

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
PIXELS_PER_POINT = 96 / 72
EMU = 9525
DEFAULT_SIZE = 18.0
MAX_RUNS = 2000
DEFAULT_COLORS = {
    "dk1": "000000",
    "lt1": "FFFFFF",
    "dk2": "44546A",
    "lt2": "E7E6E6",
    "accent1": "4472C4",
    "accent2": "ED7D31",
    "accent3": "A5A5A5",
    "accent4": "FFC000",
    "accent5": "5B9BD5",
    "accent6": "70AD47",
    "hlink": "0563C1",
    "folHlink": "954F72",
}
COLOR_MAP = {"bg1": "lt1", "tx1": "dk1", "bg2": "lt2", "tx2": "dk2"}
PRESET_COLORS = {
    "black": "000000",
    "white": "FFFFFF",
    "red": "FF0000",
    "green": "008000",
    "blue": "0000FF",
    "yellow": "FFFF00",
    "gray": "808080",
    "orange": "FFA500",
}
COLOR_TAGS = ("srgbClr", "schemeClr", "sysClr", "prstClr", "scrgbClr", "hslClr")
HEX = re.compile(r"[0-9A-Fa-f]{6}")
FONT_NAME = re.compile(r"[^\w \-]")
FALLBACK_FONTS = "'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans', 'Noto Sans CJK SC', sans-serif"
ALIGN = {"l": "left", "ctr": "center", "r": "right", "just": "justify", "dist": "justify"}
ANCHORS = {"t": "flex-start", "ctr": "center", "b": "flex-end"}
TITLES = ("title", "ctrTitle")


@dataclass(frozen=True)
class Theme:
    """Colours and fonts of the master of a slide."""

    colors: dict[str, str]
    mapping: dict[str, str]
    fonts: dict[str, str]

    def resolve(self, name: str) -> str:
        """Return the colour of a name such as `accent1` or `bg1`."""
        base = self.mapping.get(name, COLOR_MAP.get(name, name))
        return self.colors.get(base, DEFAULT_COLORS.get(base, "000000"))


def read_theme(master: Any) -> Theme:
    """Return the theme of a slide master."""
    etree = import_module("lxml.etree")
    colors, fonts = dict(DEFAULT_COLORS), {}
    for relation in master.part.rels.values():
        if not relation.reltype.endswith("/theme"):
            continue
        root = etree.fromstring(relation.target_part.blob, etree.XMLParser(resolve_entities=False, no_network=True))
        for scheme in root.iter(f"{A}clrScheme"):
            colors.update({local_tag(each): base_color(each[0]) for each in scheme if len(each)})
        for kind in ("major", "minor"):
            latin = root.find(f".//{A}{kind}Font/{A}latin")
            fonts[kind] = latin.get("typeface", "") if latin is not None else ""
    mapping = master.element.find(f"{P}clrMap")
    return Theme(colors, dict(mapping.attrib) if mapping is not None else {}, fonts)


def local_tag(element: Any) -> str:
    """Return the name of an element without its namespace; comments have none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def base_color(element: Any) -> str:
    """Return the RGB value of a colour element that is not one of the theme."""
    value = element.get("lastClr") or element.get("val") or ""
    if local_tag(element) == "prstClr":
        return PRESET_COLORS.get(value, "808080")
    if local_tag(element) == "scrgbClr":
        parts = [min(int(element.get(each, "0")) * 255 // 100_000, 255) for each in "rgb"]
        return "".join(f"{part:02X}" for part in parts)
    return value.upper() if HEX.fullmatch(value) else "808080"


def read_color(parent: Any, theme: Theme) -> tuple[str, float] | None:
    """Return the first colour inside an element as `#RRGGBB`, and its opacity."""
    element = next((each for each in parent if local_tag(each) in COLOR_TAGS), None) if parent is not None else None
    if element is None:
        return None
    is_named = local_tag(element) == "schemeClr"
    value = theme.resolve(element.get("val", "")) if is_named else base_color(element)
    red, green, blue = (int(value[at : at + 2], 16) / 255 for at in (0, 2, 4))
    opacity = 1.0
    for change in element:
        amount = int(change.get("val", "100000")) / 100_000
        if local_tag(change) == "alpha":
            opacity = amount
        else:
            red, green, blue = change_color((red, green, blue), local_tag(change), amount)
    return "#" + "".join(f"{round(min(max(part, 0), 1) * 255):02X}" for part in (red, green, blue)), opacity


def change_color(color: tuple[float, float, float], change: str, amount: float) -> tuple[float, float, float]:
    """Return a colour that is made lighter or darker."""
    if change == "shade":
        return color[0] * amount, color[1] * amount, color[2] * amount
    if change == "tint":
        red, green, blue = (1 - (1 - part) * amount for part in color)
        return red, green, blue
    if change in ("lumMod", "lumOff", "satMod"):
        hue, light, saturation = colorsys.rgb_to_hls(*color)
        if change == "satMod":
            saturation = min(saturation * amount, 1)
        else:
            light = light * amount if change == "lumMod" else light + amount
        return colorsys.hls_to_rgb(hue, min(max(light, 0), 1), saturation)
    return color


def css_color(parent: Any, theme: Theme) -> str | None:
    """Return the colour inside an element for CSS."""
    found = read_color(parent, theme)
    if found is None:
        return None
    color, opacity = found
    return color if opacity >= 1 else f"{color}{round(opacity * 255):02X}"


@dataclass(frozen=True)
class TextStyles:
    """Styles that the text of a shape inherits, the nearest first."""

    theme: Theme
    bodies: Sequence[Any]
    """`bodyPr` elements."""
    lists: Sequence[Any]
    """Elements with the properties of list levels."""
    color: str | None = None
    """Colour given by the style of the shape."""

    def body(self, name: str, default: str) -> str:
        """Return an attribute of the text body."""
        return next((each.get(name) for each in self.bodies if each.get(name) is not None), default)

    def level(self, paragraph: Any) -> list[Any]:
        """Return the paragraph properties that apply to a paragraph, the nearest first."""
        own = paragraph.find(f"{A}pPr")
        depth = min(int(own.get("lvl", "0")), 8) if own is not None else 0
        named = [each.find(f"{A}lvl{depth + 1}pPr") for each in self.lists]
        default = [each.find(f"{A}defPPr") for each in self.lists]
        return [each for each in (own, *named, *default) if each is not None]


def first(elements: Sequence[Any], name: str) -> str | None:
    """Return the first value of an attribute."""
    return next((each.get(name) for each in elements if each.get(name) is not None), None)


def first_child(elements: Sequence[Any], *names: str) -> Any:
    """Return the first child with one of the names."""
    tags = [f"{A}{name}" for name in names]
    return next((child for each in elements for child in each if child.tag in tags), None)


def draw_text(body: Any, styles: TextStyles, number: int) -> str:
    """Return the paragraphs of a text body as XHTML, or an empty string without text."""
    scale = 1.0
    autofit = first_child(styles.bodies[:1], "normAutofit")
    if autofit is not None:
        scale = int(autofit.get("fontScale", "100000").rstrip("%")) / 100_000
    counters: dict[int, int] = {}
    drawn = [draw_paragraph(each, styles, scale, counters, number) for each in body.findall(f"{A}p")]
    return "".join(drawn) if any(text for text in read_texts(body)) else ""


def read_texts(body: Any) -> Iterator[str]:
    """Yield the text of each paragraph."""
    for paragraph in body.iter(f"{A}p"):
        yield clean_text("".join(each.text or "" for each in paragraph.iter(f"{A}t")))


def draw_paragraph(paragraph: Any, styles: TextStyles, scale: float, counters: dict[int, int], number: int) -> str:
    """Return a paragraph as XHTML."""
    levels = styles.level(paragraph)
    runs = "".join(draw_runs(paragraph, levels, styles, scale, number))
    is_rtl = first(levels, "rtl") in ("1", "true")
    own = [each for each in (paragraph.find(f"{A}pPr"),) if each is not None]
    align = ALIGN.get(first(own if is_rtl else levels, "algn") or ("r" if is_rtl else "l"), "left")
    size = read_size([each for each in (paragraph.find(f".//{A}rPr"),) if each is not None], levels, scale)
    indent = int(first(levels, "indent") or "0") / EMU
    margin = int(first(levels, "marL") or "0") / EMU
    bullet = draw_bullet(levels, styles, counters, indent) if runs else ""
    before = read_spacing(first_child(levels, "spcBef"), size)
    after = read_spacing(first_child(levels, "spcAft"), size)
    line = first_child([each for each in (first_child(levels, "lnSpc"),) if each is not None], "spcPct")
    height = int(line.get("val", "100000").rstrip("%")) / 100_000 * 1.2 if line is not None else 1.2
    look = (
        f"text-align:{align};padding-inline-start:{margin:.1f}px;text-indent:{indent if bullet else 0:.1f}px;"
        f"margin:{before:.1f}px 0 {after:.1f}px;line-height:{max(height, 0.5):.2f};font-size:{size:.1f}px"
    )
    direction = ' dir="rtl"' if is_rtl else ""
    return f'<div{direction} style="{look}">{bullet}{runs or "&#160;"}</div>'


def read_size(runs: Sequence[Any], levels: Sequence[Any], scale: float) -> float:
    """Return a font size in pixels."""
    defaults = [found for each in levels if (found := each.find(f"{A}defRPr")) is not None]
    size = first([*runs, *defaults], "sz")
    points = int(size) / 100 if size else DEFAULT_SIZE
    return min(max(points, 1), 400) * PIXELS_PER_POINT * scale


def read_spacing(element: Any, size: float) -> float:
    """Return the space before or after a paragraph in pixels."""
    if element is None or len(element) == 0:
        return 0.0
    value = float(element[0].get("val", "0").rstrip("%"))
    return value / 100_000 * size if local_tag(element[0]) == "spcPct" else value / 100 * PIXELS_PER_POINT


def draw_bullet(levels: Sequence[Any], styles: TextStyles, counters: dict[int, int], indent: float) -> str:
    """Return the bullet or number of a paragraph."""
    bullet = first_child(levels, "buNone", "buChar", "buAutoNum", "buBlip")
    depth = int(levels[0].get("lvl", "0")) if levels else 0
    if bullet is None or local_tag(bullet) != "buAutoNum":
        counters.clear()
    if bullet is None or local_tag(bullet) == "buNone":
        return ""
    text = "•"
    if local_tag(bullet) == "buChar":
        char = bullet.get("char", "•")
        text = char if char.isprintable() and not "\ue000" <= char[:1] <= "\uf8ff" and char != "§" else "•"
    elif local_tag(bullet) == "buAutoNum":
        counters[depth] = counters.get(depth, int(bullet.get("startAt", "1")) - 1) + 1
        text = format_counter(counters[depth], bullet.get("type", ""))
    color = css_color(first_child(levels, "buClr"), styles.theme)
    look = f"display:inline-block;text-indent:0;min-width:{max(-indent, 12):.1f}px;{f'color:{color}' if color else ''}"
    return f'<span style="{look}">{escape(text)}</span>'


def format_counter(number: int, kind: str) -> str:
    """Return the number of a list item."""
    text = chr(96 + (number - 1) % 26 + 1) if kind.startswith("alpha") else str(number)
    text = text.upper() if "Uc" in kind else text
    return f"{text})" if "Paren" in kind else f"{text}."


def draw_runs(paragraph: Any, levels: Sequence[Any], styles: TextStyles, scale: float, number: int) -> Iterator[str]:
    """Yield the runs of a paragraph as XHTML."""
    for run in list(paragraph)[:MAX_RUNS]:
        kind = local_tag(run)
        if kind == "br":
            yield "<br/>"
        if kind not in ("r", "fld"):
            continue
        text = "".join(each.text or "" for each in run.iter(f"{A}t"))
        if kind == "fld" and run.get("type") == "slidenum":
            text = str(number)
        look = describe_run(run.find(f"{A}rPr"), levels, styles, scale)
        yield f'<span style="{look}">{escape(clean_text(text))}</span>'


def describe_run(own: Any, levels: Sequence[Any], styles: TextStyles, scale: float) -> str:
    """Return the style of a run for CSS."""
    theme = styles.theme
    defaults = [found for each in levels if (found := each.find(f"{A}defRPr")) is not None]
    chain = [*([own] if own is not None else []), *defaults]
    is_link = own is not None and own.find(f"{A}hlinkClick") is not None
    explicit = first_child(chain[:1] if own is not None else [], "solidFill", "gradFill")
    inherited = first_child(chain, "solidFill", "gradFill")
    color = css_color(explicit if explicit is not None else None, theme)
    if color is None and is_link:
        color = f"#{theme.resolve('hlink')}"
    color = color or styles.color or css_color(inherited, theme) or f"#{theme.resolve('tx1')}"
    look = [f"color:{color}", f"font-size:{read_size(chain, [], scale) if first(chain, 'sz') else 0:.1f}px"]
    if not first(chain, "sz"):
        look[1] = f"font-size:{read_size([], levels, scale):.1f}px"
    if first(chain, "b") in ("1", "true"):
        look.append("font-weight:700")
    if first(chain, "i") in ("1", "true"):
        look.append("font-style:italic")
    lines = ["underline"] * (is_link or (first(chain, "u") or "none") != "none")
    lines += ["line-through"] * ((first(chain, "strike") or "noStrike") != "noStrike")
    if lines:
        look.append(f"text-decoration:{' '.join(lines)}")
    baseline = int((first(chain, "baseline") or "0").rstrip("%"))
    if baseline:
        look.append(f"vertical-align:{'super' if baseline > 0 else 'sub'}")
    if first(chain, "cap") == "all":
        look.append("text-transform:uppercase")
    latin = first_child(chain, "latin")
    look.append(f"font-family:{name_font(latin.get('typeface', '') if latin is not None else '+mn-lt', theme)}")
    return ";".join(look)


def name_font(typeface: str, theme: Theme) -> str:
    """Return the fonts for CSS; a name that starts with `+` is one of the theme."""
    if typeface.startswith("+"):
        typeface = theme.fonts.get("major" if typeface.startswith("+mj") else "minor", "")
    name = FONT_NAME.sub("", typeface).strip()
    return f"'{name}', {FALLBACK_FONTS}" if name else FALLBACK_FONTS
