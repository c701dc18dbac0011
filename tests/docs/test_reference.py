"""The generated reference is complete and up to date."""

import json
import re
import runpy
from pathlib import Path
from typing import Any, get_args

import pytest

from deerflow.domain.runs import (
    DAMAGED,
    EVENT_DESCRIPTIONS,
    GIVEN_UP,
    ROLLED_BACK,
    RUN_ERRORS,
    TIMED_OUT,
    EventName,
)
from deerflow.gateway.errors import ERRORS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"


@pytest.fixture(scope="module")
def generator() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/reference.py"))


def test_reference_pages_are_up_to_date(generator: dict[str, Any]) -> None:
    stale = [name for name, text in generator["pages"]().items() if (REFERENCE / name).read_text() != text]
    assert stale == [], "run `make reference`"


def test_every_configuration_key_is_documented(generator: dict[str, Any]) -> None:
    text = (REFERENCE / "configuration.md").read_text()
    keys = [key for model in generator["CONFIG_FILES"].values() for key, *_ in generator["config_keys"](model)]
    assert len(keys) > 250
    assert [key for key in keys if f"| `{key}` |" not in text] == []


def test_every_setting_of_every_file_has_a_description(generator: dict[str, Any]) -> None:
    missing = [
        f"{name}: {key}"
        for name, model in generator["CONFIG_FILES"].items()
        for key, _, _, text in generator["config_keys"](model)
        if not text
    ]
    assert missing == []


def test_types_of_settings_are_written_in_words() -> None:
    assert [
        name for name in ("Annotated", "NoneType", "of Any |") if name in (REFERENCE / "configuration.md").read_text()
    ] == []


def test_every_endpoint_is_documented() -> None:
    document = json.loads((ROOT / "tests/snapshots/openapi.json").read_text())
    text = (REFERENCE / "http-api.md").read_text()
    endpoints = [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]
    assert [endpoint for endpoint in endpoints if f"| `{endpoint}` |" not in text] == []


def test_every_command_is_documented(generator: dict[str, Any]) -> None:
    text = (REFERENCE / "cli.md").read_text()
    root = generator["typer"].main.get_command(generator["build_app"](()))
    names = [name for name, _ in generator["commands"](root, "deerflow")]
    assert len(names) > 15
    assert [name for name in names if f"## `{name}`" not in text] == []


def test_every_event_is_documented() -> None:
    text = (REFERENCE / "events.md").read_text()
    assert set(get_args(EventName)) == set(EVENT_DESCRIPTIONS)
    assert [name for name in get_args(EventName) if f"| `{name}` |" not in text] == []


def test_every_error_of_a_response_is_documented_with_its_status() -> None:
    text = (REFERENCE / "errors.md").read_text()
    assert [name for name, code in ERRORS.items() if f"| `{name}` | {code.status} |" not in text] == []


def test_every_error_of_a_run_is_documented() -> None:
    text = (REFERENCE / "errors.md").read_text()
    assert {ROLLED_BACK, GIVEN_UP, TIMED_OUT, DAMAGED} <= set(RUN_ERRORS)
    assert [name for name in RUN_ERRORS if f"| `{name}` |" not in text] == []


def test_every_exception_is_documented(generator: dict[str, Any]) -> None:
    text = (REFERENCE / "errors.md").read_text()
    names = [error.__name__ for error in generator["error_classes"]()]
    assert len(names) > 30
    assert [name for name in names if f"| `{name}` |" not in text] == []


def test_every_name_that_the_page_explains_is_documented() -> None:
    dictionaries = [(ROOT / "web/src/i18n" / name).read_text() for name in ("en.ts", "failures.ts")]
    explained = set(re.findall(r"^ {4}([A-Z][A-Za-z]+):", "\n".join(dictionaries), re.MULTILINE))
    assert len(explained) > 5
    assert explained <= {*ERRORS, *RUN_ERRORS}


def test_every_error_in_the_source_of_the_gateway_has_a_code() -> None:
    sources = [path.read_text() for path in sorted((ROOT / "src/deerflow/gateway").rglob("*.py"))]
    named = {name for text in sources for name in re.findall(r'(?:"error": |_send_error\()"([A-Z][A-Za-z]+)"', text)}
    assert len(named) > 3
    assert named <= set(ERRORS)
