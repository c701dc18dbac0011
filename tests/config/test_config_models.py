"""Entries of `models:`."""

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import ValidationError

from deerflow.config.sections.models import ModelConfig, find_near_misses
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel

ENTRY = {"name": "a", "use": "a.b:C", "model": "m"}
SETTINGS = (
    "user",
    "models",
    "thinking_budget",
    "enable_thinking",
    "context_length",
    "max_context",
    "pricing",
    "vision",
)


def test_passes_unknown_keys_to_the_model_class() -> None:
    entry = ModelConfig.model_validate({**ENTRY, "temperature": 0.5, "extra_body": {"a": 1}})

    assert entry.provider_settings == {"temperature": 0.5, "extra_body": {"a": 1}}


@pytest.mark.parametrize("model", [OpenAICompatibleChatModel, ChatOpenAI, AzureChatOpenAI, ChatAnthropic])
def test_does_not_mistake_a_class_setting_for_a_misspelled_key(model: type[BaseChatModel]) -> None:
    settings = {name for name, field in model.model_fields.items()}
    settings |= {field.alias for field in model.model_fields.values() if field.alias}

    assert find_near_misses({**ENTRY, **dict.fromkeys([*settings, *SETTINGS])}) == {}


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("suports_vision", "supports_vision"),
        ("supportsVision", "supports_vision"),
        ("support_thinking", "supports_thinking"),
        ("displayname", "display_name"),
        ("context-window", "context_window"),
        ("contex_window", "context_window"),
        ("when_thinking_enable", "when_thinking_enabled"),
        ("when_thinking_disable", "when_thinking_disabled"),
        ("desciption", "description"),
        ("thinkng", "thinking"),
    ],
)
def test_finds_a_misspelled_key(key: str, field: str) -> None:
    assert find_near_misses({**ENTRY, key: 1}) == {key: field}


@pytest.mark.parametrize("use", ["a:B", "a.b:C", "_a.b_1:_C"])
def test_accepts_a_class_path(use: str) -> None:
    assert ModelConfig.model_validate({**ENTRY, "use": use}).use == use


@pytest.mark.parametrize("use", ["", ":", "a:", ":B", "a.B", "a:b.C", "a..b:C", "a/b:C", "a:B:C", "a b:C", "1a:B"])
def test_rejects_other_class_paths(use: str) -> None:
    with pytest.raises(ValidationError, match="must be"):
        ModelConfig.model_validate({**ENTRY, "use": use})


def test_an_entry_is_frozen() -> None:
    entry = ModelConfig.model_validate(ENTRY)

    with pytest.raises(ValidationError):
        entry.name = "b"  # type: ignore[misc]
