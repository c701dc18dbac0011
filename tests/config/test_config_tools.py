"""Entries of `tools:` and `tool_groups:`."""

import pytest

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
