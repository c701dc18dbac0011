"""Entries of `tools:` and `tool_groups:`."""

import pytest

from deerflow.config.reading.problems import WrongConfig
from deerflow.config.reading.text import parse_yaml
from deerflow.config.reading.validation import validate
from deerflow.config.tools import ToolConfig, ToolGroupConfig


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: web\ngroup: web\n", "use: is missing"),
        ("name: web\nuse: a.b:c\n", "group: is missing: the group the tool belongs to"),
        ("name: web\ngroup: web\nuse: a.b.c\n", 'config.yaml:3: use: must be "module:name"'),
        ("name: web\ngroup: web\nuse: a.b.c\n", "did you mean 'a.b:c'?"),
        ("name: web\ngroup: web\nuse: a:b\napproval: maybe\n", "config.yaml:4: approval: "),
        ("name: 3\ngroup: web\nuse: a:b\n", "config.yaml:1: name: "),
    ],
)
def test_a_wrong_entry_is_named_with_line_and_key(text: str, problem: str) -> None:
    with pytest.raises(WrongConfig) as caught:
        validate(ToolConfig, parse_yaml(text, "config.yaml"))
    assert problem in str(caught.value)


def test_a_group_has_a_name_and_nothing_else() -> None:
    with pytest.raises(WrongConfig, match="tools: unknown key"):
        validate(ToolGroupConfig, parse_yaml("name: web\ntools: []\n", "config.yaml"))


def test_keys_of_its_own_are_settings_of_the_tool_and_secrets_are_not_shown() -> None:
    text = "name: search\ngroup: web\nuse: a:b\nmax_results: 3\napi_key: s3cr3t-value\n"
    entry = validate(ToolConfig, parse_yaml(text, "config.yaml"))
    assert entry.settings == {"max_results": 3, "api_key": "s3cr3t-value"}
    assert entry.approval == "never"
    assert "s3cr3t-value" not in repr(entry)
