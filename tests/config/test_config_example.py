"""The example files match the settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import to_jsonable_python

from deerflow.community.web.tool import WebTool
from deerflow.config.imports import load_object
from deerflow.config.load import load, read_example_config
from deerflow.config.loader.files import parse_yaml
from deerflow.config.root import Config
from deerflow.config.sections.base import Section
from deerflow.config.sections.models import ModelConfig
from deerflow.models.detection import OPENAI_COMPATIBLE_CLIENT
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel

ROOT = Path(__file__).parents[2]
KEYS = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY"), "key")


def read_uncommented_example() -> str:
    """Return the example with every setting enabled: comments have one space after '#', settings none or two."""
    return re.sub(r"^#(?! \S)", "", read_example_config().decode(), flags=re.MULTILINE)


def list_settings(section: Section, path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in section:
        if isinstance(value, Section):
            yield from list_settings(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def list_written(data: dict[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from list_written(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def test_the_example_equals_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(read_example_config())

    assert load(directory=tmp_path, environment={}).config == Config()
    assert yaml.safe_load(read_example_config()) == {"config_version": 1}


def test_the_example_at_the_root_equals_the_packaged_one() -> None:
    assert (ROOT / "config.example.yaml").read_bytes() == read_example_config()


def test_every_setting_of_the_example_exists(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(read_uncommented_example())

    config = load(directory=tmp_path, environment=KEYS).config

    assert [model.name for model in config.models] == ["gpt", "claude", "deepseek", "openrouter", "ollama", "local"]


def test_every_setting_is_in_the_example_with_its_default() -> None:
    example = dict(list_written(parse_yaml(read_uncommented_example(), "config.example.yaml").data))
    defaults = dict(list_settings(Config()))

    assert example.keys() == defaults.keys()
    # Lists contain examples instead of defaults.
    own = {"models", "tools", "tool_groups"}
    plain = to_jsonable_python({key: value for key, value in defaults.items() if key not in own})
    assert {key: value for key, value in example.items() if key not in own} == plain


def test_every_key_of_a_model_is_explained_in_the_example() -> None:
    models = yaml.safe_load(read_uncommented_example())["models"]

    assert ModelConfig.model_fields.keys() <= {key for model in models for key in model}


def test_every_client_setting_of_the_example_exists(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(read_uncommented_example())
    entries = [
        entry
        for entry in load(directory=tmp_path, environment=KEYS).config.models
        if entry.use == OPENAI_COMPATIBLE_CLIENT
    ]

    assert len(entries) == 5
    for entry in entries:
        for thinking in (entry.when_thinking_enabled, entry.when_thinking_disabled):
            OpenAICompatibleChatModel(model=entry.model, **entry.provider_settings, **(thinking or {}))


def test_every_web_tool_setting_of_the_example_equals_its_default(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(read_uncommented_example())
    entries = load(directory=tmp_path, environment=KEYS).config.tools
    ours = [entry for entry in entries if entry.use.startswith("deerflow.")]

    images = ("image_search", "web", "deerflow.community.ddg_search.tools:image_search_tool")
    assert [(entry.name, entry.group, entry.use) for entry in ours] == [
        *((entry.name, entry.group, entry.use) for entry in Config().tools),
        images,  # not enabled by default
    ]
    for entry in ours:
        tool = load_object(entry.use, WebTool)
        defaults = tool.settings_type()
        assert tool.settings_type.model_validate(entry.settings) == defaults and entry.settings


def test_loads_the_extensions_example(tmp_path: Path) -> None:
    (tmp_path / "extensions_config.json").write_bytes((ROOT / "extensions_config.example.json").read_bytes())

    extensions = load(directory=tmp_path, environment={}).extensions

    assert [server.type for server in extensions.mcp_servers.values()] == ["stdio", "http", "sse"]
    assert not any(server.enabled for server in extensions.mcp_servers.values())
