"""The page knows the names under which runs fail."""

import re
from pathlib import Path

import pytest

from deerflow.domain import errors
from deerflow.runtime.runs.worker import GIVEN_UP, ROLLED_BACK, TIMED_OUT

STRINGS = Path(__file__).parents[2] / "web/src/i18n"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_error_name_known_to_the_page_exists(language: str) -> None:
    block = re.search(r"\n  reasons: \{(.*?)\n  \}", (STRINGS / f"{language}.ts").read_text(), re.S)
    assert block is not None
    named = set(re.findall(r"^    (\w+):", block[1], re.M))
    given = {GIVEN_UP, ROLLED_BACK, TIMED_OUT, *(name for name, kind in vars(errors).items() if isinstance(kind, type))}
    assert GIVEN_UP in named and named <= given
