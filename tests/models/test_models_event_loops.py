"""Models of several harnesses in one process: each has its own event loop and its own connections."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deerflow.client import DeerFlowClient
from deerflow.client.runs import StreamEvent
from deerflow.models.factory import ModelCatalog
from deerflow.models.openai_compatible.endpoint import Endpoint
from deerflow.testing import ScriptedServer
from tests.models.vendor_server import ANSWER, VendorServer

TEXT = "".join(ANSWER)
OPENAI, ANTHROPIC = "langchain_openai:ChatOpenAI", "langchain_anthropic:ChatAnthropic"

CLASSES: dict[str, dict[str, Any]] = {
    "own client": {"use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel", "base_url": "/v1"},
    "ChatOpenAI": {"use": OPENAI, "base_url": "/v1", "native": False},
    "ChatOpenAI with a timeout": {"use": OPENAI, "base_url": "/v1", "native": False, "timeout": 20},
    "ChatOpenAI, replaced": {"use": OPENAI, "base_url": "/v1"},
    "AzureChatOpenAI": {
        "use": "langchain_openai:AzureChatOpenAI",
        "azure_endpoint": "",
        "azure_deployment": "m",
        "api_version": "2024-10-21",
    },
    "ChatDeepSeek": {"use": "langchain_deepseek:ChatDeepSeek", "base_url": "/v1"},
    "ChatAnthropic": {"use": ANTHROPIC, "base_url": ""},
    "ChatGoogleGenerativeAI": {"use": "langchain_google_genai:ChatGoogleGenerativeAI", "base_url": ""},
    "ChatOllama": {"use": "langchain_ollama:ChatOllama", "base_url": "", "api_key": None},
}
URLS = ("base_url", "azure_endpoint")


Open = Callable[[dict[str, Any]], DeerFlowClient]


@pytest.fixture
def open_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open a client with a state directory of its own, so that tests in parallel do not share threads."""
    monkeypatch.chdir(tmp_path)
    homes = iter(("first", "second"))

    def open_one(config: dict[str, Any]) -> DeerFlowClient:
        monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / next(homes)))
        return DeerFlowClient(config)

    return open_one


def build_config(entry: dict[str, Any], url: str = "") -> dict[str, Any]:
    """Return a configuration with one model on the server at `url`."""
    settings = {name: url + value if name in URLS else value for name, value in entry.items()}
    model = {"name": "m", "model": "m", "api_key": "key-of-the-server", **settings}
    entry = {name: value for name, value in model.items() if value is not None}
    return {"models": [entry], "title": {"enabled": False}, "memory": {"enabled": False}}


def read_text(events: Iterator[StreamEvent], until: str = TEXT) -> str:
    """Return the streamed text, read until it is as long as `until`."""
    text = ""
    for event in events:
        content = event.data.get("content") if event.type == "messages-tuple" else ""
        blocks = [{"text": content}] if isinstance(content, str) else content or []
        text += "".join(block.get("text", "") for block in blocks)
        if len(text) >= len(until):
            break
    return text


@pytest.mark.slow
# The SDK of Gemini derives a class from a class of aiohttp.
@pytest.mark.filterwarnings("ignore:Inheritance class Aiohttp:DeprecationWarning")
@pytest.mark.parametrize("name", CLASSES)
def test_two_clients_on_different_event_loops_use_the_same_model(name: str, open_client: Open) -> None:
    with VendorServer() as server:
        config = build_config(CLASSES[name], server.url)
        with open_client(config) as first:
            assert first.chat("Hi", thread_id="a") == TEXT
            with open_client(config) as second:
                server.hold_next()
                answer = first.stream("Again", thread_id="a")
                beginning = read_text(answer, until=ANSWER[0])
                assert TEXT.startswith(beginning) and beginning != TEXT
                assert second.chat("Hi", thread_id="b") == TEXT  # while the answer to the first is held
                server.release()
                assert beginning + read_text(answer, until=TEXT[len(beginning) :]) == TEXT
                assert list(answer)[-1].type == "end"
            assert first.chat("And again", thread_id="a") == TEXT
            server.wait_for_connections(1)  # those of the second client are closed
        server.wait_for_connections(0)

    assert [request.is_streamed for request in server.requests] == [True] * 4


def test_two_clients_on_different_event_loops_use_the_demo_model(open_client: Open) -> None:
    config = build_config({"use": "deerflow.models.demo:DemoChatModel", "api_key": None, "delay_ms": 1})
    with open_client(config) as first:
        expected = first.chat("Hi", thread_id="a")
        with open_client(config) as second:
            answer = first.stream("Hi", thread_id="b")
            beginning = read_text(answer, until=expected[:1])
            assert second.chat("Hi", thread_id="c") == expected
            assert beginning + read_text(answer, until=expected[len(beginning) :]) == expected
            assert list(answer)[-1].type == "end"
        assert first.chat("Hi", thread_id="d") == expected


@pytest.mark.parametrize(("use", "client"), [(OPENAI, "root_async_client"), (ANTHROPIC, "_async_client")])
async def test_each_catalog_has_http_clients_of_its_own_and_closes_them(use: str, client: str) -> None:
    entry = ScriptedServer().model_config(use=use, timeout=7, base_url="http://127.0.0.1:9", native=False)
    catalogs = [ModelCatalog([entry]) for _ in range(2)]
    models = await asyncio.to_thread(lambda: [catalog.create() for catalog in catalogs])  # it imports the class
    first, second = await asyncio.to_thread(lambda: [getattr(model, client) for model in models])

    assert first._client is not second._client
    assert (first.timeout, str(first.base_url).rstrip("/")) == (second.timeout, "http://127.0.0.1:9")
    assert getattr(first.timeout, "read", first.timeout) == 7
    assert first._client.timeout.read == 7
    await catalogs[0].aclose()
    assert (first.is_closed(), second.is_closed()) == (True, False)
    await catalogs[1].aclose()


async def test_the_client_of_a_proxy_is_closed() -> None:
    catalog = ModelCatalog([ScriptedServer().model_config(use=OPENAI, openai_proxy="http://127.0.0.1:9")])
    model: Any = await asyncio.to_thread(catalog.create)

    await catalog.aclose()
    assert model.root_async_client.is_closed()


async def test_the_connections_of_a_model_that_is_garbage_are_closed() -> None:
    with VendorServer() as server:
        endpoint = Endpoint(f"{server.url}/v1/chat/completions", None, {}, 7)
        async with endpoint.post(b'{"stream": true}') as response:
            await response.read_all()
        owner: list[Any] = [endpoint]
        owner.append(owner)  # a cycle: the garbage collector finalizes all of it at once
        del endpoint, owner, response
        await asyncio.to_thread(gc.collect)  # aiohttp warns of a session that is not closed
        await asyncio.to_thread(server.wait_for_connections, 0)
