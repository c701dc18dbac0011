"""Entries with `use: langchain_openai:ChatOpenAI` that are served by our client."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import ConfigError
from deerflow.models.factory import ModelCatalog, create_chat_model
from deerflow.models.openai_compatible.client import VARIABLES_OF_CHAT_OPENAI, OpenAICompatibleChatModel
from deerflow.testing import ScriptedServer

OPENAI = "langchain_openai:ChatOpenAI"
URL = "http://localhost:9/v1"
OTHER_VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENAI_ORGANIZATION",
    "OPENAI_PROJECT_ID",
)


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES_OF_CHAT_OPENAI, *OTHER_VARIABLES):
        monkeypatch.delenv(name, raising=False)


def build_entry(**settings: Any) -> ModelConfig:
    entry = {"name": "wild", "use": OPENAI, "model": "m-1", "base_url": URL, "api_key": "key-1", **settings}
    return ModelConfig.model_validate({name: value for name, value in entry.items() if value != "absent"})


def create_model(**settings: Any) -> Any:
    return create_chat_model(build_entry(**settings))


UNSUPPORTED: dict[str, dict[str, Any]] = {
    "use_responses_api": {"use_responses_api": True},
    "output_version": {"output_version": "responses/v1"},
    "logprobs": {"logprobs": True},
    "top_logprobs": {"top_logprobs": 2},
    "n": {"n": 2},
    "max_retries": {"max_retries": 6},
    "timeout": {"timeout": (5.0, 60.0)},
    "openai_proxy": {"openai_proxy": "http://127.0.0.1:9"},
    "default_query": {"default_query": {"api-version": "1"}},
    "http_socket_options": {"http_socket_options": []},
    "stream_chunk_timeout": {"stream_chunk_timeout": 5},
    "tiktoken_model_name": {"tiktoken_model_name": "gpt-4o"},
    "include_response_headers": {"include_response_headers": True},
    "reasoning": {"reasoning": {"effort": "low"}},
    "disabled_params": {"disabled_params": {"parallel_tool_calls": None}},
    "model_kwargs": {"model_kwargs": {"extra_headers": {"X-A": "b"}}},
}


@pytest.mark.parametrize("setting", UNSUPPORTED)
def test_an_unsupported_setting_keeps_the_class_and_is_logged(setting: str, caplog: pytest.LogCaptureFixture) -> None:
    catalog = ModelCatalog([build_entry(**UNSUPPORTED[setting])])
    with caplog.at_level(logging.INFO):
        model = catalog.create()

    assert isinstance(model, ChatOpenAI)
    assert caplog.messages == [f"model 'wild': {OPENAI} is used as it is: DeerFlow's client does not support {setting}"]


@pytest.mark.parametrize("name", VARIABLES_OF_CHAT_OPENAI)
def test_a_variable_that_only_the_class_reads_keeps_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9" if name == "OPENAI_PROXY" else "1")

    assert isinstance(create_model(), ChatOpenAI)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"base_url": "absent"}, "the address is that of OpenAI"),
        ({"base_url": "https://api.openai.com/v1"}, "the address is that of OpenAI"),
        ({"base_url": "https://mine.openai.azure.com/openai/v1"}, "the address is that of OpenAI"),
        ({"model": "gpt-5.5-pro-2026"}, "it may use another API for 'gpt-5.5-pro-2026'"),
        ({"model": "gpt-6"}, "it may use another API for 'gpt-6'"),
        ({"model": "o3"}, "it may use another API for 'o3'"),
        ({"model": "openai/codex-mini"}, "it may use another API for 'openai/codex-mini'"),
    ],
)
def test_models_of_openai_keep_the_class(
    settings: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        model = ModelCatalog([build_entry(**settings)]).create()

    assert isinstance(model, ChatOpenAI)
    assert caplog.messages == [f"model 'wild': {OPENAI} is used as it is: {reason}"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"temprature": 1}, f"model 'wild': {OPENAI} has no setting 'temprature'; did you mean 'temperature'"),
        ({"temprature": None}, f"model 'wild': {OPENAI} has no setting 'temprature'"),
        ({"vendor": "qwen"}, f"model 'wild': {OPENAI} has no setting 'vendor'"),
        ({"thinking": {"type": "enabled"}}, f"model 'wild': {OPENAI} has no setting 'thinking'"),
        ({"temperature": "warm"}, "model 'wild': temperature: Input should be a valid number"),
        ({"model_kwargs": {"temperature": 1}}, "model 'wild': .*'temperature'.* should be specified explicitly"),
        ({"api_key": "absent"}, f"model 'wild': cannot create {OPENAI}: .*OPENAI_API_KEY"),
        ({"native": True, "logprobs": True}, "native: true is not possible: .* does not support logprobs"),
        ({"native": True, "use": "langchain_anthropic:ChatAnthropic"}, f"not possible: it is for {OPENAI} only"),
    ],
)
def test_an_invalid_entry_raises_the_error_of_the_class(settings: dict[str, Any], text: str) -> None:
    supports_thinking = "thinking" in settings
    entry = build_entry(supports_thinking=supports_thinking, **settings)
    with pytest.raises(ConfigError, match=text):
        create_chat_model(entry, thinking_enabled=supports_thinking)


def test_a_supported_entry_is_served_by_our_client_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    catalog = ModelCatalog([build_entry(supports_thinking=True), build_entry(name="kept", native=False)])
    with caplog.at_level(logging.INFO):
        models = [catalog.create("wild"), catalog.create("wild", thinking_enabled=True)]
        kept = catalog.create("kept")

    assert all(isinstance(model, OpenAICompatibleChatModel) for model in models)
    assert isinstance(kept, ChatOpenAI)
    assert caplog.messages == [f"model 'wild': DeerFlow's client replaces {OPENAI}; native: false keeps that class"]


def test_native_true_takes_our_client_also_for_openai() -> None:
    model = create_model(native=True, base_url="absent", model="gpt-6")

    assert isinstance(model, OpenAICompatibleChatModel)
    assert model.base_url == "https://api.openai.com/v1"


SETTINGS: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 3,
    "stop_sequences": ["END"],
    "reasoning_effort": "low",
    "presence_penalty": 0.1,
    "frequency_penalty": 0.2,
    "logit_bias": {50256: -100},
    "service_tier": "flex",
    "store": False,
    "verbosity": "low",
    "n": 1,
    "model_kwargs": {"parallel_tool_calls": False, "user": "u-1"},
    "extra_body": {"enable_thinking": True, "chat_template_kwargs": {"a": 1}},
    "default_headers": {"X-Team": "red"},
    "organization": "org-1",
    "max_retries": 2,
    "request_timeout": 30,
    "use_responses_api": False,
    "logprobs": False,
    "stream_usage": True,
    "streaming": True,
    "tags": ["a"],
}


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_the_request_is_the_same_as_that_of_the_class(limit: str) -> None:
    ours, theirs = await send_with_both({**SETTINGS, limit: 77})

    assert {**ours.body, "n": 1, "logprobs": False} == theirs.body  # both are defaults of the API
    for name in ("Authorization", "X-Team", "OpenAI-Organization"):
        assert ours.headers[name] == theirs.headers[name]


@pytest.mark.parametrize("stop", ["END", ["A", "B"], None])
async def test_stop_may_be_a_text_or_a_list(stop: object) -> None:
    ours, theirs = await send_with_both({"stop": stop, "stream_usage": True, "streaming": True})

    asked = ours.body.get("stop")
    assert asked == ([stop] if isinstance(stop, str) else stop)
    assert theirs.body.get("stop") in (stop, asked)


async def test_options_of_a_call_win_over_model_kwargs() -> None:
    settings = {"model_kwargs": {"parallel_tool_calls": False}, "stream_usage": True, "streaming": True}
    ours, theirs = await send_with_both(settings, parallel_tool_calls=True, max_tokens=5)

    assert ours.body == theirs.body
    assert (ours.body["parallel_tool_calls"], ours.body["max_completion_tokens"]) == (True, 5)


async def test_the_variables_of_the_class_keep_their_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"OPENAI_API_KEY": "key-2", "OPENAI_ORGANIZATION": "org-2", "OPENAI_PROJECT_ID": "project-2"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):  # the second wins
        ours, theirs = await send_with_both(
            {"base_url": "absent", "api_key": "absent", "streaming": True}, monkeypatch=monkeypatch, variable=variable
        )
        for header in ("Authorization", "OpenAI-Organization", "OpenAI-Project"):
            assert ours.headers[header] == theirs.headers[header]
    assert (ours.headers["Authorization"], ours.headers["OpenAI-Project"]) == ("Bearer key-2", "project-2")


async def test_a_key_of_the_entry_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-2")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-2")
    ours, _ = await send_with_both({"api_key": SecretStr("key-3"), "openai_organization": "org-3"})

    assert (ours.headers["Authorization"], ours.headers["OpenAI-Organization"]) == ("Bearer key-3", "org-3")


async def send_with_both(
    settings: dict[str, Any], *, monkeypatch: pytest.MonkeyPatch | None = None, variable: str = "", **options: Any
) -> tuple[Any, Any]:
    """Return the requests of our client and of the class, which may find the server by a variable."""
    async with ScriptedServer(["Hello."], endless=True) as server:
        if monkeypatch is not None:
            monkeypatch.setenv(variable, server.base_url)
        entry = {"base_url": server.base_url, **settings}
        for native, expected in ((None, OpenAICompatibleChatModel), (False, ChatOpenAI)):
            catalog = ModelCatalog([build_entry(native=native, **entry)])
            model: BaseChatModel = catalog.create()
            assert isinstance(model, expected)
            answer = await model.ainvoke("hi", **options)
            assert isinstance(answer, AIMessage) and answer.text == "Hello."
            await catalog.aclose()
        return server.requests[0], server.requests[1]


WITHOUT_PACKAGE = """
import sys
sys.modules["langchain_openai"] = None  # as if it were not installed
from deerflow.cli.main import main
sys.argv = ["deerflow", "config", "check", "--config", {file!r}]
main()
"""
NATIVE = "models: [{{name: a, use: 'langchain_openai:ChatOpenAI', model: m, base_url: '{url}', api_key: k{more}}}]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "code", "text"), [("", 0, ""), (", logprobs: true", 1, "pip install langchain-openai")]
)
def test_a_supported_entry_needs_no_package(tmp_path: Path, more: str, code: int, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(NATIVE.format(url=URL, more=more))

    child = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE.format(file=str(file))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)},
        cwd=tmp_path,
    )

    assert (child.returncode, text in child.stdout + child.stderr) == (code, True), child.stdout + child.stderr


BUILD_WITHOUT_PACKAGE = """
import sys
sys.modules["langchain_openai"] = None
from deerflow.config.sections.models import ModelConfig
from deerflow.models.factory import create_chat_model
entry = dict(name="a", use="langchain_openai:ChatOpenAI", model="m", base_url="http://localhost:9/v1", api_key="k")
print(type(create_chat_model(ModelConfig.model_validate(entry))).__name__, "openai" in sys.modules)
"""


@pytest.mark.slow
def test_a_replaced_class_is_not_loaded(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", BUILD_WITHOUT_PACKAGE],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert child.stdout == "OpenAICompatibleChatModel False\n"
