"""Checks of endpoints with the protocols of Anthropic and Google, by the classes of LangChain."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from deerflow.models.connection import describe_entry, find_provider, make_model_config
from tests.models.checked_servers import KEY, check
from tests.models.vendor_server import encode_anthropic, encode_gemini

LIMIT_S = 60
WORDS = ("1 ", "2 ", "3")
PROVIDERS = {"anthropic": ("x-api-key", "claude-sonnet-5-5"), "gemini": ("x-goog-api-key", "models/gemini-2.5-flash")}
REFUSALS = {
    "anthropic": {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
    "gemini": {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}},
}


def encode_anthropic_call() -> list[bytes]:
    """Return a tool call as events of the messages API."""
    begin, *_, end, stop = encode_anthropic(("",))
    block = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"city": "Paris"}'}
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
    ]
    encoded = [b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events]
    return [begin, *encoded, end, stop]


def encode_gemini_call() -> list[bytes]:
    """Return a tool call as a response of `streamGenerateContent`."""
    part = {"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}
    candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return [b"data: %s\r\n\r\n" % json.dumps({"candidates": [candidate], "usageMetadata": usage}).encode()]


@asynccontextmanager
async def serve_vendor(name: str) -> AsyncIterator[str]:
    """Yield the address of a server that lists one model and passes the tests of a check."""
    header, model = PROVIDERS[name]

    async def answer(request: web.Request) -> web.StreamResponse:
        # The SDK of Anthropic sends keys that do not begin like Anthropic's as a bearer token.
        if KEY not in (request.headers.get(header), request.headers.get("Authorization", "").removeprefix("Bearer ")):
            return web.json_response(REFUSALS[name], status=401 if name == "anthropic" else 400)
        if request.method == "GET":
            listed = (
                {"data": [{"id": model, "type": "model"}]} if name == "anthropic" else {"models": [{"name": model}]}
            )
            return web.json_response(listed)
        has_tools = bool((await request.json()).get("tools"))
        encode, call = {
            "anthropic": (encode_anthropic, encode_anthropic_call),
            "gemini": (encode_gemini, encode_gemini_call),
        }[name]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"".join(call() if has_tools else encode(WORDS)))
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.filterwarnings("ignore:Inheritance class Aiohttp:DeprecationWarning")  # of the SDK of Google
@pytest.mark.parametrize("name", PROVIDERS)
async def test_models_are_listed_and_tested_in_the_protocol_of_the_provider(name: str) -> None:
    async with asyncio.timeout(LIMIT_S), serve_vendor(name) as address:
        refused = await check(address, "sk-wrong-canary-0000", provider=name)
        assert [problem.code for problem in refused.problems] == ["bad_key"]
        report = await check(address, provider=name)
    assert ([problem.code for problem in report.problems], report.tested) == ([], PROVIDERS[name][1])
    seen = report.observed
    assert (seen.answer, seen.streaming, seen.tools, seen.usage) == (True, True, True, True)
    assert KEY not in repr(report)


@pytest.mark.filterwarnings("ignore:Inheritance class Aiohttp:DeprecationWarning")  # of the SDK of Google
@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_key_that_fails_only_when_it_is_used_is_reported(name: str) -> None:
    async with asyncio.timeout(LIMIT_S), serve_vendor(name) as address:
        used = await check(address, "sk-wrong-canary-0000", provider=name, model="some-model")
    assert [problem.code for problem in used.problems] == ["bad_key"]
    assert "sk-wrong-canary" not in repr(used)


def test_entries_use_the_classes_of_the_providers_and_their_own_addresses() -> None:
    for name, class_name in (("anthropic", "ChatAnthropic"), ("gemini", "ChatGoogleGenerativeAI")):
        provider = find_provider(name, {})
        model = PROVIDERS[name][1]
        assert provider.base_url is not None
        config = make_model_config(provider, provider.base_url, KEY, "m", model, describe_entry(provider, model))
        assert config.use.endswith(f":{class_name}") and "base_url" not in config.provider_settings
        assert not config.model.startswith("models/") and KEY not in repr(config)
    old = describe_entry(find_provider("anthropic", {}), "claude-haiku-4-5")
    assert "supports_thinking" not in old and old["supports_vision"] is True
