"""Which key a misspelt one was probably meant to be."""

from collections.abc import Iterable
from difflib import SequenceMatcher

PROBABLY = 0.6


def nearest(key: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `key`, when one is like it at all."""
    found = max(candidates, key=lambda candidate: likeness(key, candidate), default=None)
    return found if found is not None and likeness(key, found) >= PROBABLY else None


def likeness(key: str, other: str) -> float:
    """How alike two keys are, from 0 to 1; case, dashes and underscores do not count."""
    return SequenceMatcher(None, _plain(key), _plain(other)).ratio()


def _plain(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")
