"""Under which names uploads are kept."""

import os
import unicodedata
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.uploads.names import MAX_BYTES, alternatives, clean_name


@pytest.mark.parametrize(
    ("original", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\win.ini", "win.ini"),
        ("C:\\fakepath\\a.txt", "a.txt"),
        ("/etc/passwd", "passwd"),
        ("..", "upload"),
        (".", "upload"),
        ("", "upload"),
        ("folder/", "upload"),
        ("...hidden", "hidden"),
        (".upload-0.part", "upload-0.part"),
        ("%2e%2e%2fetc%2fpasswd", "%2e%2e%2fetc%2fpasswd"),
        ("a\0b.txt", "ab.txt"),
        ("a\r\nSet-Cookie: x.txt", "a  Set-Cookie: x.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u2066a\u2069\u200b\ufeff.txt", "a.txt"),
        ("con.txt", "_con.txt"),
        ("NUL", "_NUL"),
        ("trailing. . ", "trailing"),
        ("  spaces   inside .txt", "spaces   inside .txt"),
        ("\ud800.txt", "txt"),
        ("e\u0301.txt", "\u00e9.txt"),
        ("e\u200b\u0301.txt", "\u00e9.txt"),
        ("报告 (终稿).pdf", "报告 (终稿).pdf"),
        ("👩\u200d🚀.png", "👩\u200d🚀.png"),
        ("می\u200cخواهم.txt", "می\u200cخواهم.txt"),
    ],
)
def test_a_name_is_a_single_plain_name(original: str, kept: str) -> None:
    assert clean_name(original) == kept


def test_a_long_name_is_cut_between_characters_and_keeps_its_ending() -> None:
    kept = clean_name("é" * 300 + ".pdf")
    assert len(kept.encode()) <= MAX_BYTES and kept.endswith("é.pdf")
    assert len(clean_name("a." + "b" * 300).encode()) <= MAX_BYTES


@given(st.text(st.characters()))
def test_whatever_it_was_called_a_file_can_have_the_name_and_keeps_it(original: str) -> None:
    kept = clean_name(original)
    assert kept and kept not in (".", "..") and "/" not in kept and "\0" not in kept and not kept.startswith(".")
    assert len(os.fsencode(kept)) <= 255 - len("_99999.md")
    assert unicodedata.is_normalized("NFC", kept)
    assert clean_name(kept) == kept


def test_names_that_are_taken_get_a_number_before_their_ending() -> None:
    assert list(islice(alternatives("a.tar.gz"), 3)) == ["a.tar.gz", "a.tar_1.gz", "a.tar_2.gz"]
    assert list(islice(alternatives("Makefile"), 2)) == ["Makefile", "Makefile_1"]
