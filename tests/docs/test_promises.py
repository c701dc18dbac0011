"""What we promise is shown by something that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (?!promise|---)(.+?) \| (.+?) \|$", (ROOT / "docs/promises.md").read_text(), flags=re.MULTILINE)


def test_every_promise_is_shown_by_tests_or_benchmarks_that_exist() -> None:
    assert len(ROWS) >= 15
    for promise, shown_by in ROWS:
        files = re.findall(r"`([^`]+)`", shown_by)
        assert files, f"nothing shows that {promise}"
        assert [file for file in files if not (ROOT / file).exists()] == []


def test_what_shows_a_promise_is_not_skipped() -> None:
    for _, shown_by in ROWS:
        for file in re.findall(r"`(tests/[^`]+)`", shown_by):
            assert "mark.skip(" not in (ROOT / file).read_text() and "xfail" not in (ROOT / file).read_text()
