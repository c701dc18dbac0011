"""Entries of `tools:` and `tool_groups:`."""

from pathlib import Path

import pytest

from deerflow.config.load import load
from deerflow.config.loader.document import InvalidConfig
from deerflow.config.loader.files import parse_yaml
from deerflow.config.loader.validation import validate
from deerflow.config.sections.tools import ToolConfig, ToolGroupConfig


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: web\ngroup: web\n", "use: is missing"),
        ("name: web\ngroup: ''\nuse: a.b:c\n", "group: must"),
        ("name: web\ngroup: web\nuse: a.b.c\n", 'config.yaml:3: use: must be "module:name"'),
        ("name: web\ngroup: web\nuse: a.b.c\n", "did you mean 'a.b:c'?"),
        ("name: web\ngroup: web\nuse: a:b\napproval: maybe\n", "config.yaml:4: approval: "),
        ("name: 3\ngroup: web\nuse: a:b\n", "config.yaml:1: name: "),
    ],
)
def test_reports_an_invalid_entry_with_line_and_key(text: str, problem: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        validate(ToolConfig, parse_yaml(text, "config.yaml"))
    assert problem in str(caught.value)


def test_accepts_the_deprecated_tool_groups_and_rejects_unknown_keys() -> None:
    with pytest.raises(InvalidConfig, match="tools: unknown key"):
        validate(ToolGroupConfig, parse_yaml("name: web\ntools: []\n", "config.yaml"))


def test_passes_other_keys_to_the_tool_and_masks_secrets() -> None:
    text = "name: search\ngroup: web\nuse: a:b\nmax_results: 3\napi_key: s3cr3t-value\n"
    entry = validate(ToolConfig, parse_yaml(text, "config.yaml"))
    assert entry.settings == {"max_results": 3, "api_key": "s3cr3t-value"}
    assert entry.approval == "never"
    assert "s3cr3t-value" not in repr(entry)


TAVILY = {"name": "web_search", "use": "deerflow.community.tavily:tavily_search"}
BRAVE = {"name": "images", "use": "deerflow.community.brave.tools:image_search_tool"}
OWN = {"name": "own", "use": "my_package.tavily:search"}


@pytest.mark.parametrize(
    ("entry", "settings"),
    [
        (TAVILY, {"api_key": "tavily-key"}),
        ({**TAVILY, "api_key": "another"}, {"api_key": "another"}),
        ({**TAVILY, "api_key": None}, {"api_key": None}),
        (BRAVE, {}),  # its variable is not set
        (OWN, {}),
    ],
)
def test_a_web_tool_without_a_key_uses_the_variable_of_its_provider(
    tmp_path: Path, entry: dict[str, object], settings: dict[str, object]
) -> None:
    (tmp_path / ".env").write_text("TAVILY_API_KEY=tavily-key\n")
    loaded = load(directory=tmp_path, environment={}, overrides={"tools": [entry]})
    assert loaded.config.tools[0].settings == settings
    if "api_key" not in entry and settings:
        assert loaded.document.variables == {("tools", 0, "api_key"): ("TAVILY_API_KEY",)}
