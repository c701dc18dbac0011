"""Models from configuration entries."""

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import ConfigDict, SecretStr

from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import ConfigError, InvalidRequest, NotFound
from deerflow.models.factory import ModelCatalog, build_settings, create_chat_model, deep_merge
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel
from deerflow.testing import ScriptedModel, ScriptedServer

LEAN = "deerflow.models.openai_compatible:OpenAICompatibleChatModel"
OPENAI = "langchain_openai:ChatOpenAI"
ANTHROPIC = "langchain_anthropic:ChatAnthropic"


def build_entry(**settings: Any) -> ModelConfig:
    return ModelConfig.model_validate({"name": "fast", "use": LEAN, "model": "m-1", **settings})


def create_model(config: ModelConfig, **options: Any) -> Any:
    return create_chat_model(config, **options)


def test_passes_settings_to_the_class() -> None:
    model = create_model(build_entry(api_key="k", temperature=0.5, extra_body={"top_k": 1}))

    assert isinstance(model, OpenAICompatibleChatModel)
    assert (model.model, model.temperature, model.extra_body) == ("m-1", 0.5, {"top_k": 1})


def test_overrides_win_over_the_entry() -> None:
    model = create_model(
        build_entry(temperature=0.5, extra_body={"a": 1}), overrides={"temperature": 1, "extra_body": {"b": 2}}
    )

    assert (model.temperature, model.extra_body) == (1, {"a": 1, "b": 2})


def test_builds_other_langchain_models() -> None:
    key = SecretStr("sk-secret")
    openai = create_model(build_entry(use=OPENAI, native=False, api_key=key, api_base="http://local/v1", max_tokens=5))
    anthropic = create_model(build_entry(use=ANTHROPIC, api_key=key, base_url="http://local"))

    assert isinstance(openai, ChatOpenAI)
    assert (openai.model_name, openai.openai_api_base, openai.max_tokens) == ("m-1", "http://local/v1", 5)
    assert isinstance(anthropic, ChatAnthropic)
    assert (anthropic.model, anthropic.anthropic_api_url) == ("m-1", "http://local")
    assert "sk-secret" not in repr(openai) + repr(anthropic)


def test_sets_the_context_window_in_the_profile() -> None:
    model = create_model(build_entry(context_window=1000))

    assert model.profile["max_input_tokens"] == 1000


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"use": "nowhere.at_all:Model"}, r"'fast': use: .*no module 'nowhere'"),
        ({"use": "langchain_mistralai:ChatMistralAI"}, "pip install langchain-mistralai"),
        ({"use": "langchain_groq:ChatGroq"}, "pip install langchain-groq"),
        ({"use": "langchain_openai:ChatOpenIA"}, "did you mean 'ChatOpenAI'"),
        ({"use": "langchain_openai:OpenAIEmbeddings"}, "not a subclass of BaseChatModel"),
        ({"use": "os:system"}, "'os:system' is a builtin_function_or_method, not a subclass of BaseChatModel"),
        ({"temprature": 1}, "has no setting 'temprature'; did you mean 'temperature'"),
        ({"use": OPENAI, "api_key": "k", "temprature": 1}, "has no setting 'temprature'; did you mean 'temperature'"),
        ({"use": OPENAI, "api_key": "k", "zzz": 1}, "has no setting 'zzz'; .* under model_kwargs"),
        ({"zzz": 1}, "has no setting 'zzz'; .* under model_kwargs"),
        ({"timeout": -1}, "'fast': timeout: Input should be greater than 0"),
        ({"temperature": "warm"}, "'fast': temperature: Input should be a valid number"),
        ({"vendor": "nobody"}, "'fast': vendor: .*must be one of"),
    ],
)
def test_rejects_an_invalid_entry_with_advice(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        create_model(build_entry(**settings))


def test_an_error_contains_no_key() -> None:
    with pytest.raises(ConfigError) as caught:
        create_model(build_entry(api_key=["sk-secret"]))

    assert "sk-secret" not in str(caught.value)


class Stubborn(ScriptedModel):
    """A chat model class of another vendor that cannot be created."""

    model_config = ConfigDict(extra="allow")

    def __init__(self, mood: str, **settings: Any) -> None:
        if mood == "bad":
            raise RuntimeError("not today")
        super().__init__(**settings)


def test_names_the_entry_when_the_class_raises() -> None:
    use = f"{__name__}:Stubborn"

    assert create_model(build_entry(use=use, mood="good", anything="goes")).anything == "goes"
    with pytest.raises(ConfigError, match="model 'fast': cannot create .*:Stubborn: not today"):
        create_model(build_entry(use=use, mood="bad"))


THINKING_TYPE = {"extra_body": {"thinking": {"type": "enabled", "budget": 9}}}


@pytest.mark.parametrize(
    ("config", "on", "off"),
    [
        (
            {"when_thinking_enabled": THINKING_TYPE},
            THINKING_TYPE,
            {"extra_body": {"thinking": {"type": "disabled"}}},
        ),
        (
            {"when_thinking_enabled": THINKING_TYPE, "supports_reasoning_effort": True},
            THINKING_TYPE,
            {"extra_body": {"thinking": {"type": "disabled"}}, "reasoning_effort": "minimal"},
        ),
        (
            {"when_thinking_enabled": {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}},
            {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}},
            {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
        ),
        (
            {"when_thinking_enabled": {"extra_body": {"chat_template_kwargs": {"thinking": True}}}},
            {"extra_body": {"chat_template_kwargs": {"thinking": True}}},
            {"extra_body": {"chat_template_kwargs": {"thinking": False}}},
        ),
        (
            {"when_thinking_enabled": {"extra_body": {"enable_thinking": True}}},
            {"extra_body": {"enable_thinking": True}},
            {"extra_body": {"enable_thinking": False}},
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 100}},
            {"thinking": {"type": "enabled", "budget_tokens": 100}},
            {"thinking": {"type": "disabled"}},
        ),
        (
            {"thinking": {"type": "enabled"}, "when_thinking_enabled": {"max_tokens": 9}},
            {"thinking": {"type": "enabled"}, "max_tokens": 9},
            {"thinking": {"type": "disabled"}},
        ),
        ({"when_thinking_enabled": THINKING_TYPE, "when_thinking_disabled": {}}, THINKING_TYPE, {}),
        ({"when_thinking_enabled": {"temperature": 1}}, {"temperature": 1}, {}),
        ({}, {}, {}),
    ],
)
def test_switches_thinking_in_the_format_of_the_vendor(config: dict[str, Any], on: Any, off: Any) -> None:
    model = build_entry(supports_thinking=True, **config)

    assert build_settings(model, thinking_enabled=True, reasoning_effort=None) == on
    assert build_settings(model, thinking_enabled=False, reasoning_effort=None) == off


def test_merges_thinking_settings_into_the_entry() -> None:
    model = create_model(
        build_entry(supports_thinking=True, extra_body={"a": 1}, when_thinking_enabled=THINKING_TYPE),
        thinking_enabled=True,
    )

    assert model.extra_body == {"a": 1, "thinking": {"type": "enabled", "budget": 9}}


def test_raises_for_thinking_without_support() -> None:
    with pytest.raises(ConfigError, match="'fast' does not support thinking; set supports_thinking"):
        create_model(build_entry(), thinking_enabled=True)


def test_passes_reasoning_effort_if_supported() -> None:
    assert (
        create_model(build_entry(supports_reasoning_effort=True), reasoning_effort="xhigh").reasoning_effort == "xhigh"
    )
    assert create_model(build_entry(), reasoning_effort="high").reasoning_effort is None
    with pytest.raises(InvalidRequest, match="one of none, minimal, low, medium, high, xhigh, not 'huge'"):
        create_model(build_entry(), reasoning_effort="huge")


def test_merging_changes_no_argument() -> None:
    below, above = {"a": {"b": 1}, "c": 1}, {"a": {"d": 2}, "c": {"e": 3}}

    assert deep_merge(below, above) == {"a": {"b": 1, "d": 2}, "c": {"e": 3}}
    assert below == {"a": {"b": 1}, "c": 1}


def create_catalog(*names: str) -> ModelCatalog:
    return ModelCatalog([build_entry(name=name) for name in names])


def test_the_first_model_is_the_default() -> None:
    assert create_catalog("one", "two").default.name == "one"
    assert create_catalog("one", "two").resolve(None).name == "one"
    with pytest.raises(ConfigError, match="no model is configured"):
        _ = create_catalog().default


def test_an_unknown_name_lists_similar_ones() -> None:
    models = create_catalog("gpt-5", "claude")

    assert models.find("claude").name == "claude"
    with pytest.raises(NotFound, match="there is no model 'gpt5'; available: gpt-5$"):
        models.find("gpt5")


def test_falls_back_to_the_default_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert create_catalog("one", "two").resolve("three").name == "one"

    assert "there is no model 'three'" in caplog.text


def test_rejects_duplicate_names() -> None:
    with pytest.raises(ConfigError, match="same name"):
        create_catalog("one", "one")


def test_builds_each_variant_once(caplog: pytest.LogCaptureFixture) -> None:
    models = ModelCatalog([build_entry(supports_reasoning_effort=True)])

    plain, low = models.create("fast"), models.create("fast", reasoning_effort="low")

    assert models.create() is plain is not low
    with caplog.at_level(logging.WARNING):
        assert models.create("fast", thinking_enabled=True) is models.create("fast", thinking_enabled=True)
    assert caplog.text.count("does not support thinking") == 1


class BuiltTogether(ScriptedModel):
    """Model whose construction waits until another one is being constructed."""

    def __init__(self, model: str, meeting: Barrier) -> None:
        super().__init__()
        meeting.wait(timeout=10)


def test_threads_that_build_a_variant_at_the_same_time_share_the_first() -> None:
    entry = build_entry(use=f"{__name__}:BuiltTogether", meeting=Barrier(2))
    models = ModelCatalog([entry])

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: models.create(), range(2))

    assert first is second is models.create()


async def test_closing_the_catalog_closes_its_models() -> None:
    async with ScriptedServer(["one", "two"]) as server:
        models = ModelCatalog([server.model_config()])
        await models.create().ainvoke("hi")
        await models.aclose()
        again = models.create()
        await again.ainvoke("hi")
        await models.aclose()

    assert isinstance(again, BaseChatModel)
    assert server.requests[0].client != server.requests[1].client


@pytest.mark.slow
@pytest.mark.parametrize("module", ["deerflow.models.factory", "deerflow.models.detection"])
def test_importing_does_not_load_clients(module: str) -> None:
    heavy = ("aiohttp", "httpx", "openai", "anthropic")
    program = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"

    child = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert child.stdout == "[]\n"


def test_timeouts_of_other_classes_mean_what_they_document() -> None:
    shared = {"api_key": "k", "base_url": "http://127.0.0.1:9/v1"}
    pair = create_model(build_entry(use=OPENAI, native=False, timeout=[5, 60], **shared))
    deepseek = create_model(build_entry(use="langchain_deepseek:ChatDeepSeek", **shared))

    assert (pair.root_async_client.timeout.connect, pair.root_async_client.timeout.read) == (5, 60)
    assert deepseek.root_async_client.timeout.read == 600  # the default of the SDK
