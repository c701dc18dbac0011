"""Detection of models without configuration."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from deerflow.models.connection import find_facts, list_providers, read_snapshot
from deerflow.models.detection import PROVIDERS, LocalServer, Provider, detect_local_models, detect_models
from deerflow.models.factory import create_chat_model
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel
from deerflow.testing import ScriptedServer

KEY = "sk-very-secret"


def test_detects_nothing_in_an_empty_environment() -> None:
    assert detect_models({}) == []
    assert detect_models({"OPENAI_API_KEY": ""}) == []


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_a_key_yields_a_usable_model(provider: Provider) -> None:
    for key in provider.keys:
        [config] = detect_models({key: KEY})
        for thinking in {False, config.supports_thinking}:
            model = create_chat_model(config, thinking_enabled=thinking, reasoning_effort="low")
            assert KEY not in repr(config) + str(config.model_dump()) + config.model_dump_json() + repr(model)


def test_all_keys_yield_models_with_unique_names() -> None:
    configs = detect_models({key: KEY for provider in PROVIDERS for key in provider.keys})

    assert [config.name for config in configs] == [provider.name for provider in PROVIDERS]
    assert len({config.name for config in configs}) == len(PROVIDERS)


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_the_environment_sets_model_and_url(variable: str) -> None:
    environment = {"OPENAI_API_KEY": KEY, variable: "http://proxy/v1", "OPENAI_MODEL": "my-model"}

    [config] = detect_models(environment)
    model = create_chat_model(config)

    assert isinstance(model, OpenAICompatibleChatModel)
    assert (model.model, model.base_url) == ("my-model", "http://proxy/v1")
    assert model.api_key is not None and model.api_key.get_secret_value() == KEY


async def test_uses_models_of_a_local_server() -> None:
    names = ["qwen3:8b", "nomic-embed-text", "llama3.2"]
    async with ScriptedServer(["hello"], models=names) as server:
        found = await LocalServer("Ollama", server.base_url.removesuffix("/v1"), 1, limit_s=5).list_models()
        answer = await create_chat_model(found[0]).ainvoke("hi")

    assert [(config.name, config.display_name) for config in found] == [
        ("qwen3:8b", "qwen3:8b (Ollama)"),
        ("llama3.2", "llama3.2 (Ollama)"),
    ]
    assert answer.content == "hello"


async def test_lists_up_to_twenty_unique_models_of_ollama_host() -> None:
    async with ScriptedServer(models=["m0", *(f"m{number}" for number in range(30))]) as server:
        host = server.base_url.removeprefix("http://").removesuffix("/v1")
        found = await detect_local_models({"OLLAMA_HOST": host}, limit_s=5)

    assert [config.name for config in found] == [f"m{number}" for number in range(20)]


@pytest.mark.parametrize(
    "host", ["127.0.0.1:1", "no.such.host.invalid", "host:port", "http://[", ":0", "https://127.0.0.1:1", "\x00"]
)
async def test_ignores_an_unreachable_server(host: str) -> None:
    assert await LocalServer("Ollama", host, default_port=1).list_models() == []


@asynccontextmanager
async def serve_raw(response: bytes | None) -> AsyncIterator[str]:
    """Start a server that sends `response` to every client, or nothing."""
    open_ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if response is None:
            await open_ended.wait()
        else:
            writer.write(response)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        open_ended.set()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    "response",
    [
        None,
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.0 404 Not Found\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 200 OK\r\n\r\n[]",
        b'HTTP/1.0 200 OK\r\n\r\n{"data": null}',
        b'HTTP/1.0 200 OK\r\n\r\n{"data": [1, {"id": 5}, {}]}',
    ],
    ids=["silence", "nothing", "another protocol", "404", "a web page", "a list", "no models", "nonsense"],
)
async def test_ignores_other_servers(response: bytes | None) -> None:
    async with serve_raw(response) as host, asyncio.timeout(5):
        assert await LocalServer("Ollama", host, default_port=1).list_models() == []


def test_every_tile_of_a_provider_is_in_the_snapshot() -> None:
    known = [provider.id for provider in list_providers({}) if provider.base_url is not None]
    assert [name for name in known if name not in read_snapshot()] == []
    assert find_facts("doubao", "doubao-seed-2-0-pro-260215").context_window == 256_000
