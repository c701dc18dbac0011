"""Properties of chunks, robots rules and decoders for any input."""

import re
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from deerflow.community.web.http import BoundedDecoder
from deerflow.community.web.results import find_chunk_end
from deerflow.community.web_fetch.tools import RobotsRule, RobotsRules

TEXTS = st.text(st.sampled_from("ab\n鹿"), max_size=200)
PATHS = st.text(st.sampled_from("/ab.$"), max_size=12).map(lambda path: f"/{path}")
PATTERNS = st.text(st.sampled_from("/ab.*$"), max_size=8).map(lambda path: f"/{path}")


@settings(deadline=None)
@given(TEXTS, st.integers(1, 50))
def test_chunks_are_bounded_and_add_up_to_the_text(text: str, max_chars: int) -> None:
    pieces, offset = [], 0
    while offset < len(text):
        end = find_chunk_end(text, offset, max_chars)
        assert offset < end <= offset + max_chars
        pieces.append(text[offset:end])
        offset = end
    assert "".join(pieces) == text


@settings(deadline=None)
@given(PATTERNS, PATHS)
def test_rule_matches_its_pattern(pattern: str, path: str) -> None:
    beginning, end = (pattern[:-1], r"\Z") if pattern.endswith("$") else (pattern, "")
    expression = ".*".join(re.escape(part) for part in beginning.split("*"))
    assert RobotsRule(pattern, allows=True).matches(path) is bool(re.match(expression + end, path, re.S))


@settings(deadline=None)
@given(st.binary(max_size=500), st.text(max_size=20))
def test_parses_any_bytes_as_robots_txt(body: bytes, path: str) -> None:
    assert RobotsRules.parse(body).allows(f"/{path}") in (True, False)


@settings(deadline=None)
@given(st.binary(max_size=2000), st.integers(1, 2500), st.integers(1, 50))
def test_incremental_decoding_returns_the_start_of_the_content(body: bytes, limit: int, size: int) -> None:
    packed = zlib.compress(body)
    unpacked = BoundedDecoder("deflate", limit)
    for place in range(0, len(packed), size):
        unpacked.add(packed[place : place + size])
    assert unpacked.content == body[:limit] and unpacked.is_full is (len(body) > limit)
