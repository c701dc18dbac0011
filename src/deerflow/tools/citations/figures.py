"""Figures in a text: what they stand for, however they are written, and whether a page has them."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import unescape

from deerflow.tools.citations.numerals import CJK_NUMERAL, numeral
from deerflow.tools.citations.quotes import TARGET

SCALES = {
    "k": 3, "thousand": 3, "tausend": 3, "千": 3, "万": 4, "萬": 4, "mio": 6, "mn": 6, "million": 6, "millions": 6,
    "millionen": 6, "百万": 6, "千万": 7, "亿": 8, "億": 8, "bn": 9, "billion": 9, "billions": 9, "mrd": 9,
    "milliarden": 9, "milliards": 9, "十亿": 9, "tn": 12, "trillion": 12, "trillions": 12, "万亿": 12,
}  # fmt: skip
UNITS = {
    "%": "%", "percent": "%", "per cent": "%", "prozent": "%", "pct": "%", "pp": "pp", "percentage point": "pp",
    "percentage points": "pp", "个百分点": "pp", "$": "usd", "us$": "usd", "usd": "usd", "dollar": "usd",
    "dollars": "usd", "美元": "usd", "€": "eur", "eur": "eur", "euro": "eur", "euros": "eur", "欧元": "eur",
    "£": "gbp", "gbp": "gbp", "pounds": "gbp", "¥": "cny", "cny": "cny", "rmb": "cny", "yuan": "cny", "元": "cny",
    "人民币": "cny", "yen": "jpy", "jpy": "jpy", "日元": "jpy", "kg": "kg", "kilogram": "kg", "kilograms": "kg",
    "公斤": "kg", "千克": "kg", "g": "g", "gram": "g", "grams": "g", "mg": "mg", "t": "t", "ton": "t", "tons": "t",
    "tonne": "t", "tonnes": "t", "吨": "t", "km": "km", "kilometer": "km", "kilometers": "km", "kilometre": "km",
    "kilometres": "km", "公里": "km", "m": "m", "meter": "m", "meters": "m", "metre": "m", "metres": "m", "米": "m",
    "cm": "cm", "mm": "mm", "mile": "mi", "miles": "mi", "°c": "°c", "°f": "°f", "mw": "mw", "gw": "gw", "kw": "kw",
    "kwh": "kwh", "mwh": "mwh", "gwh": "gwh", "twh": "twh", "hour": "h", "hours": "h", "小时": "h", "day": "d",
    "days": "d", "天": "d", "month": "mo", "months": "mo", "year": "y", "years": "y", "mb": "mb", "gb": "gb",
}  # fmt: skip
ONES = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19,
}  # fmt: skip
TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
SPELLED = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(TENS)})(?:[- ](?P<ones>{'|'.join(ONES)}))?|(?P<small>{'|'.join(ONES)}))\b"
)
"""Small numbers in words, as a page may have them where a report has digits."""
ABBREVIATED = {"m": 6, "b": 9, "t": 12}
"""What these mean behind a figure that a currency stands before."""


def one_of(words: Iterable[str]) -> str:
    """A pattern for words, the longest first; one of letters ends where the letters do."""
    listed = sorted(words, key=len, reverse=True)
    return "|".join(re.escape(word) + (r"(?![a-z])" if "a" <= word[-1] <= "z" else "") for word in listed)


DIGITS = r"(?<![a-z_\d])(?<!\d[.,])(?P<{}>\d{{1,3}}(?: \d{{3}}(?!\d))++(?:[.,]\d++)?+|\d++(?:[.,'’]\d++)*+)"
TOKEN = re.compile(
    r"(?P<before>us\$|[$€£¥]|\b(?:usd|eur|gbp|cny|rmb)\s?|百分之)?\s?"
    + DIGITS.format("digits")
    + rf"(?:[ \-]?(?P<scale>{one_of(SCALES)})\.?)?(?:[ \-]?(?P<unit>{one_of(UNITS)}))?(?![a-z_])|"
    + DIGITS.format("bare")
)
SUPERSCRIPTS = dict.fromkeys(map(ord, "⁰¹²³⁴⁵⁶⁷⁸⁹"))
DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
ROUGHLY = re.compile(
    r"(?:\b(?:about|around|roughly|nearly|almost|some|approximately|approx\.?|ca\.?|circa|over|more than|under"
    r"|less than|up to|etwa|rund|fast)|[~≈约近超]|将近|超过|大约)\s*(?:us)?[$€£¥]?\s*$"
)
LOOKED_BACK, LOOKED_ON = 24, 4
AFTERWARDS = ("左右", "多", "余", "以上")
TOLERANCE = Decimal("0.05")
MAX_DIGITS = 30


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as it is written, and what it may stand for."""

    written: str
    values: tuple[Decimal, ...]
    unit: str | None = None
    plain: tuple[Decimal, ...] = ()
    """What it stands for without its "million", if it has one."""
    scale: int = 0
    is_rough: bool = False
    parts: tuple[Decimal, ...] = ()
    """The numbers in it, where it may be several: a version, a date, two numbers side by side."""
    may_be_apart: bool = False
    """Whether these may also stand apart from each other."""


@dataclass(slots=True)
class KnownFigures:
    """The figures of a page."""

    units: dict[Decimal, set[str | None]] = field(default_factory=dict)
    scales: set[int] = field(default_factory=set)
    sequences: set[tuple[Decimal, ...]] = field(default_factory=set)
    """Numbers that stand together, as in a version."""
    _ordered: list[Decimal] | None = None

    def learn(self, text: str) -> None:
        """Take in the figures of a text."""
        for figure in figures_in(text, every=True):
            self.sequences.add(figure.parts)
            for value in (*figure.values, *figure.parts):
                self.units.setdefault(value, set()).add(figure.unit)
        plain = text.casefold()
        for spelled in SPELLED.finditer(plain):
            value = Decimal(
                TENS.get(spelled["tens"] or "", 0) + ONES.get(spelled["ones"] or spelled["small"] or "", 0)
            ).normalize()
            self.units.setdefault(value, set()).add(None)
        self.scales |= {scale for word, scale in SCALES.items() if len(word) > 1 and word in plain}
        self._ordered = None

    def have(self, figure: Figure) -> bool:
        """Whether a figure of the report is one of these."""
        if any(self._has(value, figure.unit) for value in figure.values):
            return True
        if figure.scale in self.scales and any(None in self.units.get(value, ()) for value in figure.plain):
            return True  # a table in millions
        if figure.parts and figure.parts in self.sequences:
            return True
        if figure.may_be_apart and all(value in self.units for value in figure.parts):
            return True
        return figure.is_rough and any(map(self._has_about, figure.values))

    def nearest(self, figure: Figure) -> Decimal | None:
        """The figure that comes nearest."""
        wanted = figure.values[0] if figure.values else Decimal()
        place = bisect_left(self.ordered, wanted)
        return min(self.ordered[max(0, place - 1) : place + 1], key=lambda known: abs(known - wanted), default=None)

    @property
    def ordered(self) -> Sequence[Decimal]:
        """The values, smallest first."""
        if self._ordered is None:
            self._ordered = sorted(self.units)
        return self._ordered

    def _has_about(self, value: Decimal) -> bool:
        place = bisect_left(self.ordered, value / (1 + TOLERANCE))
        return place < len(self.ordered) and self.ordered[place] <= value / (1 - TOLERANCE)

    def _has(self, value: Decimal, unit: str | None) -> bool:
        units = self.units.get(value)
        return units is not None and (unit is None or None in units or unit in units)


def figures_in(text: str, *, every: bool = False) -> Iterator[Figure]:
    """The figures of a text; in a page also what may be none (`every`)."""
    plain = unicodedata.normalize("NFKC", TARGET.sub("]", unescape(text)).translate(SUPERSCRIPTS)).lower()
    if not every:
        plain = DATE.sub(r"\1 / \3", plain)  # a page may have the month in words
    for match in TOKEN.finditer(plain):
        if match["digits"] is not None:
            yield figure_of(match, plain)
        elif every:  # 5th, 1990s
            yield Figure(match[0], values_of(match["bare"]))
    yield from cjk_figures(plain, every)


def figure_of(match: re.Match[str], text: str) -> Figure:
    """What a match stands for."""
    digits, scale_word, unit_word = match["digits"], match["scale"], match["unit"]
    before = (match["before"] or "").strip()
    unit = "%" if before == "百分之" else UNITS.get(before) or UNITS.get(unit_word or "")
    scale = SCALES.get(scale_word or "", 0)
    if before and before != "百分之" and not scale and unit_word in ABBREVIATED:
        scale = ABBREVIATED[unit_word]
    values = values_of(digits)
    scaled = tuple(value.scaleb(scale).normalize() for value in values)
    begin, end = match.start("digits"), match.end()
    is_rough = bool(ROUGHLY.search(text[max(0, match.start() - LOOKED_BACK) : begin])) or text[
        end : end + LOOKED_ON
    ].lstrip().startswith(AFTERWARDS)
    parts, may_be_apart = parts_of(digits) if not values or " " in digits else ((), False)
    return Figure(match[0].strip(), scaled, unit, values if scale else (), scale, is_rough, parts, may_be_apart)


def parts_of(digits: str) -> tuple[tuple[Decimal, ...], bool]:
    """The numbers in what may be several, and whether they may also stand apart."""
    parts = tuple(map(to_value, re.findall(r"\d+", digits)))
    if " " in digits:
        return parts, len(parts) == 2 and bool(parts[1])
    if len(parts) == 3 and parts[2] > 1000:
        return (parts[0], parts[2]), True  # a date; a page may have the month in words
    return parts, False


def values_of(digits: str) -> tuple[Decimal, ...]:
    """What digits with separators may stand for; nothing where they are several numbers."""
    if " " in digits:
        return (to_value(digits.replace(" ", "").replace(",", ".")),)
    groups = re.split(r"[.,'’]", digits)
    marks = re.findall(r"[.,'’]", digits)
    if not marks:
        return (to_value(digits),)
    are_thousands = len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    found = []
    if are_thousands and len(set(marks)) == 1:
        found.append(to_value("".join(groups)))
    if len(marks) == 1 and marks[0] in ".,":
        found.append(to_value(".".join(groups)))
    if len(set(marks)) == 2 and marks.count(marks[-1]) == 1 and all(len(group) == 3 for group in groups[1:-1]):
        found.append(to_value(f"{''.join(groups[:-1])}.{groups[-1]}"))
    return tuple(found)


def to_value(digits: str) -> Decimal:
    """A number; of one that nobody could mean, only its end is looked at."""
    return Decimal(digits[-MAX_DIGITS:].strip(".") or "0").normalize()


def cjk_figures(text: str, every: bool) -> Iterator[Figure]:
    """Numbers in Chinese numerals; in a report only those that can be nothing else."""
    for match in CJK_NUMERAL.finditer(text):
        value = numeral(match["numeral"])
        if value is None:
            continue
        is_percent = match["percent"] is not None
        if every or is_percent or match["year"] or any(sign in match["numeral"][1:] for sign in "十百千万萬亿億"):
            yield Figure(match[0], (value,), "%" if is_percent else None)
