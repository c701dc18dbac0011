"""What holds for every page and every rule."""

import re
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from deerflow.community.web.http import Unpacked
from deerflow.community.web.paging import piece_end
from deerflow.community.web_fetch.robots import Robots, Rule

TEXTS = st.text(st.sampled_from("ab\n鹿"), max_size=200)
PATHS = st.text(st.sampled_from("/ab.$"), max_size=12).map(lambda path: f"/{path}")
PATTERNS = st.text(st.sampled_from("/ab.*$"), max_size=8).map(lambda path: f"/{path}")


@settings(deadline=None)
@given(TEXTS, st.integers(1, 50))
def test_pieces_are_never_empty_nor_too_long_and_together_are_the_text(text: str, max_chars: int) -> None:
    pieces, offset = [], 0
    while offset < len(text):
        end = piece_end(text, offset, max_chars)
        assert offset < end <= offset + max_chars
        pieces.append(text[offset:end])
        offset = end
    assert "".join(pieces) == text


@settings(deadline=None)
@given(PATTERNS, PATHS)
def test_a_rule_fits_what_its_pattern_says(pattern: str, path: str) -> None:
    beginning, end = (pattern[:-1], r"\Z") if pattern.endswith("$") else (pattern, "")
    expression = ".*".join(re.escape(part) for part in beginning.split("*"))
    assert Rule(pattern, allows=True).fits(path) is bool(re.match(expression + end, path, re.S))


@settings(deadline=None)
@given(st.binary(max_size=500), st.text(max_size=20))
def test_any_bytes_are_rules(body: bytes, path: str) -> None:
    assert Robots.read(body).allow(f"/{path}") in (True, False)


@settings(deadline=None)
@given(st.binary(max_size=2000), st.integers(1, 2500), st.integers(1, 50))
def test_what_is_unpacked_in_pieces_is_the_beginning_of_what_was_packed(body: bytes, limit: int, size: int) -> None:
    packed = zlib.compress(body)
    unpacked = Unpacked("deflate", limit)
    for place in range(0, len(packed), size):
        unpacked.add(packed[place : place + size])
    assert unpacked.content == body[:limit] and unpacked.is_full is (len(body) > limit)
