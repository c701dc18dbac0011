"""Numbers in Chinese numerals."""

import re
from decimal import Decimal

DIGITS = {
    sign: value
    for value, signs in enumerate(("〇零", "一壹", "二两兩", "三", "四", "五", "六", "七", "八", "九"))
    for sign in signs
}
SMALL = {"十": 10, "百": 100, "千": 1000}
LARGE = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
SIGNS = "".join((*DIGITS, *SMALL, *LARGE))
CJK_NUMERAL = re.compile(
    rf"(?P<percent>百分之)?(?P<numeral>[{''.join(DIGITS)}十百千][{SIGNS}]{{0,20}}(?:点[{''.join(DIGITS)}]{{1,10}})?)(?P<year>年)?"
)
MANY = 20


def numeral(text: str) -> Decimal | None:
    """The number; None when the signs are none."""
    whole, _, fraction = text.partition("点")
    value = positional(whole) if all(sign in DIGITS for sign in whole) else grouped(whole)
    if value is None or (len(text) == 1 and text not in SMALL):
        return None
    digits = "".join(str(DIGITS[sign]) for sign in fraction)
    return Decimal(f"{value}.{digits}").normalize() if digits else Decimal(value).normalize()


def positional(text: str) -> int:
    """Digits one after the other, as in a year."""
    return int("".join(str(DIGITS[sign]) for sign in text[:MANY]))


def grouped(text: str) -> int | None:
    """Digits with their powers of ten."""
    total, section, digit = 0, 0, 0
    for sign in text:
        if sign in DIGITS:
            if digit:
                return None
            digit = DIGITS[sign]
        elif sign in SMALL:
            section += (digit or 1) * SMALL[sign]
            digit = 0
        else:
            total = (total + section + digit) * LARGE[sign]
            section, digit = 0, 0
    return total + section + digit
