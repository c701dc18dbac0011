"""The generated reference is complete and up to date."""

import json
import runpy
from pathlib import Path
from typing import Any, get_args

import pytest

from deerflow.domain import errors
from deerflow.domain.runs import EVENT_DESCRIPTIONS, EventName

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
    keys = [key for key, *_ in generator["config_keys"](generator["Config"])]
    assert len(keys) > 150
    assert [key for key in keys if f"| `{key}` |" not in text] == []


def test_every_setting_has_a_description(generator: dict[str, Any]) -> None:
    missing = [key for key, _, _, text in generator["config_keys"](generator["Config"]) if not text]
    assert missing == []


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


def test_every_error_is_documented() -> None:
    text = (REFERENCE / "errors.md").read_text()
    names = [
        error.__name__
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.DeerFlowError)
    ]
    assert [name for name in names if f"| `{name}` |" not in text] == []
