"""Tests of invisible characters in untrusted text."""

import sys
import unicodedata

import pytest

from deerflow.domain.taint import MAX_ESCAPED_RUN, escape_invisible

VISIBLE_FORMATS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Characters of the category Cf that are shown: signs that precede numbers."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200bb", "a\\u{200b}b"),
        ("\u202etxt\u2069", "\\u{202e}txt\\u{2069}"),
        ("a\U000e0041", "a\\u{e0041}"),
        ("a\ufe0f", "a\\u{fe0f}"),
        ("\U0001f600\ufe0f\ufe01\U000e0103", "\U0001f600\ufe0f\\u{fe01}\\u{e0103}"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f\\u{fe0f}"),
        ("a\u200db", "a\\u{200d}b"),
        ("\u0645\u200c\u200c", "\u0645\u200c\\u{200c}"),
        ("\u200d", "\\u{200d}"),
        ("a\x00\x1b[0m\x7f", "a\\u{0}\\u{1b}[0m\\u{7f}"),
        ("one\rtwo", "one\\u{d}two"),
        ("\ud800", "\\u{d800}"),
        ("\u115f\u3164", "\\u{115f}\\u{3164}"),
    ],
)
def test_invisible_characters_are_written_out(text: str, shown: str) -> None:
    assert escape_invisible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Two lines,\r\none\ttab\n",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3 \u2194\ufe0f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "e\u0301 \u00a0 \u6570\u636e \u05e9\u05dc\u05d5\u05dd",
    ],
    ids=["lines", "a family", "emoji", "Persian", "other scripts"],
)
def test_text_that_people_see_is_kept(text: str) -> None:
    assert escape_invisible(text) == text


def test_all_format_characters_without_a_shape_are_written_out() -> None:
    formats = {chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"}
    kept = {character for character in formats if escape_invisible(character) == character}
    assert kept == set(VISIBLE_FORMATS) & formats


def test_long_runs_are_shortened_and_escaping_twice_changes_nothing() -> None:
    shown = escape_invisible("a" + "\U000e0041" * 10_000)
    assert shown == "a" + "\\u{e0041}" * MAX_ESCAPED_RUN + f"[{10_000 - MAX_ESCAPED_RUN} more invisible characters]"
    assert escape_invisible(shown) == shown
