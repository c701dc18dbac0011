"""Under which name a file is kept that its sender called something else."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import count
from pathlib import PurePosixPath

MAX_BYTES = 200
"""Shorter than a file system allows: a number or another ending may be added."""
MAX_SUFFIX = 20
NAMELESS = "upload"
JOINERS = "\u200c\u200d"
"""Invisible like the marks that turn the direction of writing, but words and emoji need them."""
DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?")
"""Names that some systems take for devices, whatever their ending."""


def clean_name(original: str) -> str:
    """A name for a file: the last part of what its sender said, without what could mislead people or programs."""
    last = re.split(r"[/\\]", original)[-1]
    shown = "".join(" " if character.isspace() else character for character in last if is_shown(character))
    name = unicodedata.normalize("NFC", shown).strip(". ") or NAMELESS
    if DEVICES.fullmatch(name):
        name = f"_{name}"
    return shortened(name)


def alternatives(name: str) -> Iterator[str]:
    """`name`, then others for when it is taken: `report_1.pdf`, `report_2.pdf` …"""
    yield name
    stem, suffix = split(name)
    for number in count(1):
        yield f"{stem}_{number}{suffix}"


def is_shown(character: str) -> bool:
    """Whether a character is seen, or changes only its neighbours."""
    return character in JOINERS or character.isspace() or unicodedata.category(character) not in UNSEEN


UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control characters, marks of direction, surrogates, and what has no meaning."""


def shortened(name: str) -> str:
    """`name` in no more than `MAX_BYTES`; its ending stays."""
    if len(name.encode()) <= MAX_BYTES:
        return name
    stem, suffix = split(name)
    if len(suffix) > MAX_SUFFIX:
        stem, suffix = name, ""
    room = MAX_BYTES - len(suffix.encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip(". ") + suffix


def split(name: str) -> tuple[str, str]:
    """What is before the last dot, and the rest."""
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix), suffix
