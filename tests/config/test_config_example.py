"""The example files say what the models say."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import to_jsonable_python

from deerflow.community.web.tool import WebTool
from deerflow.config.example import example_config
from deerflow.config.imports import load_object
from deerflow.config.load import load
from deerflow.config.models import ModelConfig
from deerflow.config.reading.text import parse_yaml
from deerflow.config.root import Config
from deerflow.config.section import Section
from deerflow.models.openai_compatible import OpenAICompatibleChatModel

ROOT = Path(__file__).parents[2]
KEYS = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY"), "key")


def uncommented() -> str:
    """The example with every setting switched on: a comment has one blank after its '#', a setting none or two."""
    return re.sub(r"^#(?! \S)", "", example_config().decode(), flags=re.MULTILINE)


def settings(section: Section, path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in section:
        if isinstance(value, Section):
            yield from settings(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def written(data: dict[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from written(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def test_the_example_as_it_stands_is_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(example_config())

    assert load(directory=tmp_path, environment={}).config == Config()
    assert yaml.safe_load(example_config()) == {"config_version": 1}


def test_the_example_at_the_root_is_the_one_in_the_package() -> None:
    assert (ROOT / "config.example.yaml").read_bytes() == example_config()


def test_every_setting_of_the_example_exists(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(uncommented())

    config = load(directory=tmp_path, environment=KEYS).config

    assert [model.name for model in config.models] == ["gpt", "claude", "deepseek", "openrouter", "ollama", "local"]


def test_every_setting_is_in_the_example_with_its_default() -> None:
    example = dict(written(parse_yaml(uncommented(), "config.example.yaml").data))
    defaults = dict(settings(Config()))

    assert example.keys() == defaults.keys()
    # Lists of a user's own things show examples.
    own = {"models", "tools", "tool_groups"}
    plain = to_jsonable_python({key: value for key, value in defaults.items() if key not in own})
    assert {key: value for key, value in example.items() if key not in own} == plain


def test_every_key_of_a_model_is_explained_in_the_example() -> None:
    models = yaml.safe_load(uncommented())["models"]

    assert ModelConfig.model_fields.keys() <= {key for model in models for key in model}


def test_every_setting_of_our_own_client_in_the_example_exists(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(uncommented())
    entries = [
        entry
        for entry in load(directory=tmp_path, environment=KEYS).config.models
        if entry.use == f"{OpenAICompatibleChatModel.__module__}:{OpenAICompatibleChatModel.__name__}"
    ]

    assert len(entries) == 5
    for entry in entries:
        for thinking in (entry.when_thinking_enabled, entry.when_thinking_disabled):
            OpenAICompatibleChatModel(model=entry.model, **entry.provider_settings, **(thinking or {}))


def test_every_setting_of_our_own_web_tools_in_the_example_exists_and_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(uncommented())
    entries = load(directory=tmp_path, environment=KEYS).config.tools
    ours = [entry for entry in entries if entry.use.startswith("deerflow.")]

    images = ("image_search", "web", "deerflow.community.ddg_search.tools:image_search_tool")
    assert [(entry.name, entry.group, entry.use) for entry in ours] == [
        *((entry.name, entry.group, entry.use) for entry in Config().tools),
        images,  # which whoever wants it adds
    ]
    for entry in ours:
        tool = load_object(entry.use, WebTool)
        defaults = tool.settings_type()
        assert tool.settings_type.model_validate(entry.settings) == defaults and entry.settings


def test_the_example_of_extensions_can_be_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "extensions_config.json").write_bytes((ROOT / "extensions_config.example.json").read_bytes())

    extensions = load(directory=tmp_path, environment={}).extensions

    assert [server.type for server in extensions.mcp_servers.values()] == ["stdio", "http", "sse"]
    assert not any(server.enabled for server in extensions.mcp_servers.values())
