"""Models of several harnesses in one process: each has its own event loop and its own connections."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deerflow.client import DeerFlowClient
from deerflow.models.factory import ModelCatalog
from deerflow.testing import ScriptedServer

CLASSES = ["langchain_openai:ChatOpenAI", "deerflow.models.openai_compatible:OpenAICompatibleChatModel"]


@contextmanager
def serve_in_a_thread() -> Iterator[ScriptedServer]:
    """Yield a scripted model server that runs on an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> ScriptedServer:
        return await ScriptedServer(["Hello."], endless=True).__aenter__()

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.mark.parametrize("use", CLASSES)
def test_two_clients_on_different_event_loops_use_the_same_model(use: str) -> None:
    with serve_in_a_thread() as server:
        entry = server.model_config(use=use).model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        config = {"models": [{**entry, "api_key": "scripted-key"}], "title": {"enabled": False}}
        with DeerFlowClient(config) as first:
            assert first.chat("Hi", thread_id="a") == "Hello."
            with DeerFlowClient(config) as second:
                assert second.chat("Hi", thread_id="b") == "Hello."
                assert first.chat("Again", thread_id="a") == "Hello."
            assert first.chat("And again", thread_id="a") == "Hello."


@pytest.mark.parametrize(
    ("use", "client"),
    [("langchain_openai:ChatOpenAI", "root_async_client"), ("langchain_anthropic:ChatAnthropic", "_async_client")],
)
async def test_each_catalog_has_http_clients_of_its_own_and_closes_them(use: str, client: str) -> None:
    entry = ScriptedServer().model_config(use=use, timeout=7, base_url="http://127.0.0.1:9")
    catalogs = [ModelCatalog([entry]) for _ in range(2)]
    models = await asyncio.to_thread(lambda: [catalog.create() for catalog in catalogs])  # it imports the class
    first, second = await asyncio.to_thread(lambda: [getattr(model, client) for model in models])

    assert first._client is not second._client
    assert (first.timeout, str(first.base_url).rstrip("/")) == (second.timeout, "http://127.0.0.1:9")
    assert getattr(first.timeout, "read", first.timeout) == 7
    await catalogs[0].aclose()
    assert (first.is_closed(), second.is_closed()) == (True, False)
    await catalogs[1].aclose()
