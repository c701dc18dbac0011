"""Egress of providers: only their own host, or through a configured proxy."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from deerflow.community.brave.tools import BraveSettings
from deerflow.community.searxng.tools import SearxngSettings
from deerflow.community.web.http import NotAllowed, Unreachable, WebRequest
from deerflow.community.web.tool import make_api_client
from deerflow.domain.errors import ConfigError
from tests.community.web_site import ScriptedResponse, Site, call_tool, create_tool, json_response, open_site

LIMIT_S = 20.0
FOUND = json_response({"results": [{"title": "Deer", "url": "https://deer.example/", "content": "Mammals"}]})


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


async def test_refuses_private_addresses_and_other_hosts_for_public_providers(site: Site) -> None:
    elsewhere = f"http://localhost:{site.port}/"
    for settings in (BraveSettings(), SearxngSettings(base_url=site.url), SearxngSettings()):
        with pytest.raises(NotAllowed, match="is not an allowed host"):
            async with asyncio.timeout(LIMIT_S):
                await make_api_client(settings).send(WebRequest(elsewhere))
    assert site.asked == []
    hidden = BraveSettings(base_url="https://api.search.brave.com")
    assert "base_url" in hidden.model_fields_set, "who writes an address says that it is theirs"


async def test_allows_a_private_address_for_a_configured_provider(site: Site) -> None:
    site.routes["/search"] = FOUND
    found = orjson.loads(await call_tool(create_tool("searxng", "web_search", base_url=site.url), query="deer"))
    assert found["results"] == [{"title": "Deer", "url": "https://deer.example/", "snippet": "Mammals"}]


@asynccontextmanager
async def open_proxy(status: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve a proxy with a fixed status and record its requests."""
    asked: list[str] = []

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n".encode())
        writer.write(f"Content-Length: {len(FOUND.body)}\r\n\r\n".encode() + FOUND.body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        yield f"http://me:word@127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def test_reaches_a_provider_through_a_proxy() -> None:
    async with open_proxy("200 OK") as (proxy, asked):
        tool = create_tool("searxng", "web_search", base_url="http://search.example", proxy=proxy)
        assert "https://deer.example/" in await call_tool(tool, query="deer")
    (request,) = asked
    assert request.startswith("GET http://search.example/search?q=deer&format=json HTTP/1.1\r\n")
    assert f"Proxy-Authorization: Basic {b64encode(b'me:word').decode()}" in request


async def test_reports_a_failing_proxy(site: Site) -> None:
    async with open_proxy("403 Forbidden") as (proxy, asked):
        http = make_api_client(SearxngSettings(base_url="https://search.example", proxy=proxy))
        with pytest.raises(Unreachable, match="refused search.example:443"):
            async with asyncio.timeout(LIMIT_S):
                await http.send(WebRequest("https://search.example/"))
        async with open_proxy("\r\n\r\n") as (silent, _), asyncio.timeout(LIMIT_S):
            for proxy in (silent, "http://127.0.0.1:1"):
                with pytest.raises(Unreachable):
                    await make_api_client(SearxngSettings(base_url="https://search.example", proxy=proxy)).send(
                        WebRequest("https://search.example/")
                    )
    assert asked[0].startswith("CONNECT search.example:443 HTTP/1.1\r\nHost: search.example:443\r\n")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "http://[", "api_key": "k"}, "is not a valid URL"),
        ({"base_url": "nowhere", "api_key": "k"}, "is not a valid URL"),
        ({"proxy": "socks5://127.0.0.1", "api_key": "k"}, "a proxy URL looks like"),
    ],
)
def test_refuses_an_invalid_url_in_the_configuration(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_tool("brave", "web_search", **settings)


async def test_sends_the_body_byte_for_byte(site: Site) -> None:
    site.routes["/v2/search"] = ScriptedResponse(b"{}", headers={"Content-Type": "application/json"})
    tool = create_tool("firecrawl", "web_search", base_url=site.url)
    query = "鹿 " * 300
    await call_tool(tool, query=query)
    assert site.asked[0].json == {"query": query, "limit": 5}
