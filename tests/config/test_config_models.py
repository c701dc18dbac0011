"""`models:` entries."""

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import ValidationError

from deerflow.config.models import ModelConfig, near_misses
from deerflow.models.openai_compatible import OpenAICompatibleChatModel

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


def test_what_an_entry_does_not_know_goes_to_the_model_class() -> None:
    entry = ModelConfig.model_validate({**ENTRY, "temperature": 0.5, "extra_body": {"a": 1}})

    assert entry.provider_settings == {"temperature": 0.5, "extra_body": {"a": 1}}


@pytest.mark.parametrize("model", [OpenAICompatibleChatModel, ChatOpenAI, AzureChatOpenAI, ChatAnthropic])
def test_no_setting_of_a_model_class_is_taken_for_a_misspelt_key(model: type[BaseChatModel]) -> None:
    settings = {name for name, field in model.model_fields.items()}
    settings |= {field.alias for field in model.model_fields.values() if field.alias}

    assert near_misses({**ENTRY, **dict.fromkeys([*settings, *SETTINGS])}) == {}


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
def test_a_misspelt_key_is_found(key: str, field: str) -> None:
    assert near_misses({**ENTRY, key: 1}) == {key: field}


@pytest.mark.parametrize("use", ["a:B", "a.b:C", "_a.b_1:_C"])
def test_a_class_is_named_by_module_and_name(use: str) -> None:
    assert ModelConfig.model_validate({**ENTRY, "use": use}).use == use


@pytest.mark.parametrize("use", ["", ":", "a:", ":B", "a.B", "a:b.C", "a..b:C", "a/b:C", "a:B:C", "a b:C", "1a:B"])
def test_anything_else_is_not_a_class(use: str) -> None:
    with pytest.raises(ValidationError, match="must be"):
        ModelConfig.model_validate({**ENTRY, "use": use})


def test_an_entry_is_frozen() -> None:
    entry = ModelConfig.model_validate(ENTRY)

    with pytest.raises(ValidationError):
        entry.name = "b"  # type: ignore[misc]
