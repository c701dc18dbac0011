"""Quantities in texts: parsing of numbers with units, and comparison with those of a page."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import unescape

from deerflow.tools.citations.spans import LINK_TARGET

NUMERALS = {
    sign: value
    for value, signs in enumerate(("〇零", "一壹", "二两兩", "三", "四", "五", "六", "七", "八", "九"))
    for sign in signs
}
SMALL_POWERS = {"十": 10, "百": 100, "千": 1000}
LARGE_POWERS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
SIGNS = "".join((*NUMERALS, *SMALL_POWERS, *LARGE_POWERS))
CJK_NUMERAL = re.compile(
    rf"(?P<percent>百分之)?(?P<numeral>[{''.join(NUMERALS)}十百千][{SIGNS}]{{0,20}}(?:点[{''.join(NUMERALS)}]{{1,10}})?)(?P<year>年)?"
)
MAX_CJK_DIGITS = 20


def parse_cjk_numeral(text: str) -> Decimal | None:
    """Return the value of a Chinese numeral, or None if it is not one."""
    whole, _, fraction = text.partition("点")
    value = parse_digit_sequence(whole) if all(sign in NUMERALS for sign in whole) else parse_grouped_numeral(whole)
    if value is None or (len(text) == 1 and text not in SMALL_POWERS):
        return None
    digits = "".join(str(NUMERALS[sign]) for sign in fraction)
    return Decimal(f"{value}.{digits}").normalize() if digits else Decimal(value).normalize()


def parse_digit_sequence(text: str) -> int:
    """Return the value of a sequence of digits, as in a year."""
    return int("".join(str(NUMERALS[sign]) for sign in text[:MAX_CJK_DIGITS]))


def parse_grouped_numeral(text: str) -> int | None:
    """Return the value of a numeral with powers of ten."""
    total, section, digit = 0, 0, 0
    for sign in text:
        if sign in NUMERALS:
            if digit:
                return None
            digit = NUMERALS[sign]
        elif sign in SMALL_POWERS:
            section += (digit or 1) * SMALL_POWERS[sign]
            digit = 0
        else:
            total = (total + section + digit) * LARGE_POWERS[sign]
            section, digit = 0, 0
    return total + section + digit


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
SPELLED_NUMBER = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(TENS)})(?:[- ](?P<ones>{'|'.join(ONES)}))?|(?P<small>{'|'.join(ONES)}))\b"
)
"""Small numbers in words, because a page may spell out what a report writes in digits."""
ABBREVIATED = {"m": 6, "b": 9, "t": 12}
"""Scales after an amount with a currency symbol."""


def build_alternation(words: Iterable[str]) -> str:
    """Return a pattern for words, longest first. A word of letters must not continue."""
    listed = sorted(words, key=len, reverse=True)
    return "|".join(re.escape(word) + (r"(?![a-z])" if "a" <= word[-1] <= "z" else "") for word in listed)


DIGITS = r"(?<![a-z_\d])(?<!\d[.,])(?P<{}>\d{{1,3}}(?: \d{{3}}(?!\d))+(?:[.,]\d++)?|\d++(?:[.,'’]\d++)*)"
TOKEN = re.compile(
    r"(?P<before>us\$|[$€£¥]|\b(?:usd|eur|gbp|cny|rmb)\s?|百分之)?\s?"
    + DIGITS.format("digits")
    + rf"(?:[ \-]?(?P<scale>{build_alternation(SCALES)})\.?)?(?:[ \-]?(?P<unit>{build_alternation(UNITS)}))?(?![a-z_])|"
    + DIGITS.format("bare")
)
SUPERSCRIPTS = dict.fromkeys(map(ord, "⁰¹²³⁴⁵⁶⁷⁸⁹"))
DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
APPROXIMATION = re.compile(
    r"(?:\b(?:about|around|roughly|nearly|almost|some|approximately|approx\.?|ca\.?|circa|over|more than|under"
    r"|less than|up to|etwa|rund|fast)|[~≈约近超]|将近|超过|大约)\s*(?:us)?[$€£¥]?\s*$"
)
LOOKBEHIND_CHARS, LOOKAHEAD_CHARS = 24, 4
APPROXIMATION_SUFFIXES = ("左右", "多", "余", "以上")
TOLERANCE = Decimal("0.05")
MAX_DIGITS = 30


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity as written, with its possible values."""

    text: str
    values: tuple[Decimal, ...]
    unit: str | None = None
    unscaled: tuple[Decimal, ...] = ()
    """Values without the scale, such as "million"."""
    scale: int = 0
    is_approximate: bool = False
    parts: tuple[Decimal, ...] = ()
    """Its numbers if it may be several: a version, a date, adjacent numbers."""
    may_be_separate: bool = False
    """True if the parts may also occur separately."""


@dataclass(slots=True)
class QuantityIndex:
    """Quantities of a page."""

    units: dict[Decimal, set[str | None]] = field(default_factory=dict)
    scales: set[int] = field(default_factory=set)
    sequences: set[tuple[Decimal, ...]] = field(default_factory=set)
    """Numbers that occur together, as in a version."""
    _sorted_values: list[Decimal] | None = None

    def add_text(self, text: str) -> None:
        """Add the quantities of a text."""
        for quantity in find_quantities(text, include_ambiguous=True):
            self.sequences.add(quantity.parts)
            for value in (*quantity.values, *quantity.parts):
                self.units.setdefault(value, set()).add(quantity.unit)
        normalized = text.casefold()
        for spelled in SPELLED_NUMBER.finditer(normalized):
            value = Decimal(
                TENS.get(spelled["tens"] or "", 0) + ONES.get(spelled["ones"] or spelled["small"] or "", 0)
            ).normalize()
            self.units.setdefault(value, set()).add(None)
        self.scales |= {scale for word, scale in SCALES.items() if len(word) > 1 and word in normalized}
        self._sorted_values = None

    def contains(self, quantity: Quantity) -> bool:
        """Return True if a quantity of the report is in the index."""
        if any(self._contains(value, quantity.unit) for value in quantity.values):
            return True
        if quantity.scale in self.scales and any(None in self.units.get(value, ()) for value in quantity.unscaled):
            return True  # a table in millions
        if quantity.parts and quantity.parts in self.sequences:
            return True
        if quantity.may_be_separate and all(value in self.units for value in quantity.parts):
            return True
        return quantity.is_approximate and any(map(self._contains_near, quantity.values))

    def nearest(self, quantity: Quantity) -> Decimal | None:
        """Return the nearest value, or None."""
        wanted = quantity.values[0] if quantity.values else Decimal()
        index = bisect_left(self.sorted_values, wanted)
        return min(
            self.sorted_values[max(0, index - 1) : index + 1], key=lambda value: abs(value - wanted), default=None
        )

    @property
    def sorted_values(self) -> Sequence[Decimal]:
        """All values in ascending order."""
        if self._sorted_values is None:
            self._sorted_values = sorted(self.units)
        return self._sorted_values

    def _contains_near(self, value: Decimal) -> bool:
        index = bisect_left(self.sorted_values, value / (1 + TOLERANCE))
        return index < len(self.sorted_values) and self.sorted_values[index] <= value / (1 - TOLERANCE)

    def _contains(self, value: Decimal, unit: str | None) -> bool:
        units = self.units.get(value)
        return units is not None and (unit is None or None in units or unit in units)


def find_quantities(text: str, *, include_ambiguous: bool = False) -> Iterator[Quantity]:
    """Yield the quantities of a text. For pages, `include_ambiguous` adds what may not be a quantity."""
    normalized = unicodedata.normalize("NFKC", LINK_TARGET.sub("]", unescape(text)).translate(SUPERSCRIPTS)).lower()
    if not include_ambiguous:
        normalized = DATE.sub(r"\1 / \3", normalized)  # a page may spell out the month
    for match in TOKEN.finditer(normalized):
        if match["digits"] is not None:
            yield parse_quantity(match, normalized)
        elif include_ambiguous:  # 5th, 1990s
            yield Quantity(match[0], parse_values(match["bare"]))
    yield from find_cjk_quantities(normalized, include_ambiguous)


def parse_quantity(match: re.Match[str], text: str) -> Quantity:
    """Return the quantity of a match."""
    digits, scale_word, unit_word = match["digits"], match["scale"], match["unit"]
    before = (match["before"] or "").strip()
    unit = "%" if before == "百分之" else UNITS.get(before) or UNITS.get(unit_word or "")
    scale = SCALES.get(scale_word or "", 0)
    if before and before != "百分之" and not scale and unit_word in ABBREVIATED:
        scale = ABBREVIATED[unit_word]
    values = parse_values(digits)
    scaled = tuple(value.scaleb(scale).normalize() for value in values)
    begin, end = match.start("digits"), match.end()
    is_approximate = bool(APPROXIMATION.search(text[max(0, match.start() - LOOKBEHIND_CHARS) : begin])) or text[
        end : end + LOOKAHEAD_CHARS
    ].lstrip().startswith(APPROXIMATION_SUFFIXES)
    parts, may_be_separate = split_parts(digits) if not values or " " in digits else ((), False)
    return Quantity(
        match[0].strip(), scaled, unit, values if scale else (), scale, is_approximate, parts, may_be_separate
    )


def split_parts(digits: str) -> tuple[tuple[Decimal, ...], bool]:
    """Return the numbers of a compound, and whether they may occur separately."""
    parts = tuple(map(to_decimal, re.findall(r"\d+", digits)))
    if " " in digits:
        return parts, len(parts) == 2 and bool(parts[1])
    if len(parts) == 3 and parts[2] > 1000:
        return (parts[0], parts[2]), True  # a date; a page may spell out the month
    return parts, False


def parse_values(digits: str) -> tuple[Decimal, ...]:
    """Return the possible values of digits with separators. Empty for several numbers."""
    if " " in digits:
        return (to_decimal(digits.replace(" ", "").replace(",", ".")),)
    groups = re.split(r"[.,'’]", digits)
    separators = re.findall(r"[.,'’]", digits)
    if not separators:
        return (to_decimal(digits),)
    are_thousands = len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    found = []
    if are_thousands and len(set(separators)) == 1:
        found.append(to_decimal("".join(groups)))
    if len(separators) == 1 and separators[0] in ".,":
        found.append(to_decimal(".".join(groups)))
    if (
        len(set(separators)) == 2
        and separators.count(separators[-1]) == 1
        and all(len(group) == 3 for group in groups[1:-1])
    ):
        found.append(to_decimal(f"{''.join(groups[:-1])}.{groups[-1]}"))
    return tuple(found)


def to_decimal(digits: str) -> Decimal:
    """Return a number. Of overlong numbers only the last digits are used."""
    return Decimal(digits[-MAX_DIGITS:].strip(".") or "0").normalize()


def find_cjk_quantities(text: str, include_ambiguous: bool) -> Iterator[Quantity]:
    """Yield quantities in Chinese numerals. In reports only unambiguous ones."""
    for match in CJK_NUMERAL.finditer(text):
        value = parse_cjk_numeral(match["numeral"])
        if value is None:
            continue
        is_percent = match["percent"] is not None
        if (
            include_ambiguous
            or is_percent
            or match["year"]
            or any(sign in match["numeral"][1:] for sign in "十百千万萬亿億")
        ):
            yield Quantity(match[0], (value,), "%" if is_percent else None)
