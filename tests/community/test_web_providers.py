"""Providers of web tools, each simulated by a local site that follows its documentation."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from deerflow.domain.tools import READ_ONLY, UNTRUSTED
from tests.community.web_site import (
    ScriptedResponse,
    Site,
    call_tool,
    create_tool,
    html_response,
    json_response,
    open_site,
)

PAGE = "https://example.org/deer?a=1&b=2"
KEY = "secret-key"
RESULTS: dict[str, tuple[dict[str, ScriptedResponse], list[dict[str, object]]]] = {
    "tavily": (
        {
            "/search": json_response(
                {
                    "query": "red deer",
                    "answer": None,
                    "results": [
                        {"title": "Deer", "url": PAGE, "content": "Deer\n are  mammals.", "score": 0.9},
                        {
                            "title": None,
                            "url": "https://example.org/2",
                            "content": "Second",
                            "published_date": "2026-01-02",
                        },
                    ],
                    "response_time": 1.2,
                }
            )
        },
        [
            {"title": "Deer", "url": PAGE, "snippet": "Deer are mammals."},
            {"title": "", "url": "https://example.org/2", "snippet": "Second", "published": "2026-01-02"},
        ],
    ),
    "brave": (
        {
            "/res/v1/web/search": json_response(
                {
                    "type": "search",
                    "web": {
                        "results": [
                            {
                                "title": "Deer &amp; elk",
                                "url": PAGE,
                                "description": "They&#x27;re mammals.",
                                "page_age": "2026-02-03T00:00:00",
                            }
                        ]
                    },
                }
            )
        },
        [
            {
                "title": "Deer & elk",
                "url": PAGE,
                "snippet": "They're mammals.",
                "published": "2026-02-03T00:00:00",
            }
        ],
    ),
    "serper": (
        {
            "/search": json_response(
                {
                    "searchParameters": {"q": "red deer"},
                    "organic": [
                        {"title": "Deer", "link": PAGE, "snippet": "Mammals", "date": "Jan 2, 2026", "position": 1}
                    ],
                }
            )
        },
        [{"title": "Deer", "url": PAGE, "snippet": "Mammals", "published": "Jan 2, 2026"}],
    ),
    "searxng": (
        {
            "/search": json_response(
                {
                    "query": "red deer",
                    "number_of_results": 0,
                    "results": [
                        {"title": "Deer", "url": PAGE, "content": "Mammals", "publishedDate": None, "engine": "x"},
                        {"title": "No page", "url": "javascript:alert(1)", "content": ""},
                    ],
                }
            )
        },
        [{"title": "Deer", "url": PAGE, "snippet": "Mammals"}],
    ),
    "exa": (
        {
            "/search": json_response(
                {
                    "requestId": "r",
                    "results": [
                        {"id": PAGE, "title": "Deer", "url": PAGE, "publishedDate": "2026-01-02", "text": "Mammals"}
                    ],
                }
            )
        },
        [{"title": "Deer", "url": PAGE, "snippet": "Mammals", "published": "2026-01-02"}],
    ),
    "firecrawl": (
        {
            "/v2/search": json_response(
                {"success": True, "data": {"web": [{"title": "Deer", "url": PAGE, "description": "Mammals"}]}}
            )
        },
        [{"title": "Deer", "url": PAGE, "snippet": "Mammals"}],
    ),
    "ddg_search": (
        {
            "/html/": html_response(
                """<!DOCTYPE html><html><body><div class="serp__results">
                <div class="result results_links result--ad"><a class="result__a" href="https://ad.example/">Buy</a></div>
                <div class="result results_links results_links_deep web-result"><div class="links_main">
                  <h2 class="result__title"><a rel="nofollow" class="result__a"
                    href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.org%2Fdeer%3Fa%3D1%26b%3D2&amp;rut=1">Red
                    <b>deer</b></a></h2>
                  <a class="result__snippet" href="x"><b>Deer</b> are mammals &amp; ruminants.</a></div></div>
                <div class="result"><h2><a class="result__a" href="https://example.org/2">Direct</a></h2></div>
                </div></body></html>"""
            )
        },
        [
            {"title": "Red deer", "url": PAGE, "snippet": "Deer are mammals & ruminants."},
            {"title": "Direct", "url": "https://example.org/2", "snippet": ""},
        ],
    ),
}
EMPTY_RESULTS = {
    "tavily": ("/search", json_response({"results": []})),
    "brave": ("/res/v1/web/search", json_response({"type": "search", "query": {}})),
    "serper": ("/search", json_response({"organic": []})),
    "searxng": ("/search", json_response({"results": []})),
    "exa": ("/search", json_response({"results": []})),
    "firecrawl": ("/v2/search", json_response({"success": True, "data": []})),
    "ddg_search": ("/html/", html_response("<html><body><div class='no-results'>No results.</div></body></html>")),
}
VARIABLES = {
    "tavily": "TAVILY_API_KEY",
    "brave": "BRAVE_SEARCH_API_KEY",
    "serper": "SERPER_API_KEY",
    "exa": "EXA_API_KEY",
}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


def get_key_settings(provider: str) -> dict[str, object]:
    return {"api_key": KEY} if provider in (*VARIABLES, "firecrawl") else {}


async def search(site: Site, provider: str, name: str = "web_search", **settings: object) -> str:
    tool = create_tool(provider, name, base_url=site.url, **settings)
    return await call_tool(tool, query="red deer")


@pytest.mark.parametrize("provider", VARIABLES)
async def test_reports_a_missing_key_without_a_request(site: Site, provider: str) -> None:
    for empty in ({}, {"api_key": ""}):
        text = await search(site, provider, **empty)
        assert text.startswith(f"Error: MissingKey: {provider} needs a key")
        assert f"set {VARIABLES[provider]} in" in text and "`api_key`" in text and "config.yaml" in text
    assert site.asked == []


@pytest.mark.parametrize("provider", RESULTS)
@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (401, {}, ("MissingKey", "check `api_key`")),
        (402, {}, ("RateLimited", "quota")),
        (429, {"Retry-After": "7"}, ("RateLimited", "try again in 7 s")),
        (429, {}, ("RateLimited", "try again in a while")),
        (500, {}, ("Rejected", "status 500: it broke")),
        (302, {"Location": "/elsewhere"}, ("Rejected", "status 302")),
    ],
)
async def test_converts_a_status_to_a_message(
    site: Site, provider: str, status: int, headers: dict[str, str], message: tuple[str, str]
) -> None:
    if provider == "searxng" and status == 401:
        message = ("Rejected", "does not return JSON")
    (path,) = RESULTS[provider][0]
    site.routes[path] = ScriptedResponse(b"it broke", status, headers)
    text = await search(site, provider, **get_key_settings(provider))
    assert text.startswith(f"Error: {message[0]}: ") and message[1] in text
    assert KEY not in text
    assert len(site.asked) == 1


@pytest.mark.parametrize("provider", [name for name in RESULTS if name != "ddg_search"])
@pytest.mark.parametrize("body", [b"", b"<html>no JSON", b"[1]", b'{"results": 7, "web": 7, "organic": 7, "data": 7}'])
async def test_reports_an_unexpected_response(site: Site, provider: str, body: bytes) -> None:
    (path,) = RESULTS[provider][0]
    site.routes[path] = ScriptedResponse(body)
    text = await search(site, provider, **get_key_settings(provider))
    assert text.startswith("Error: Unreadable: ") and "returned an unexpected response" in text


async def test_times_out_on_a_silent_provider(site: Site) -> None:
    async def wait(reader: Any, writer: Any) -> None:
        await reader.read()

    site.routes["/search"] = ScriptedResponse(headers={"Content-Length": "10"}, speak=wait)
    text = await search(site, "tavily", api_key=KEY, timeout=0.2)
    assert text == "Error: TooSlow: 127.0.0.1 did not answer within 0.2 s; try another page, or later"


async def test_reports_an_unreachable_provider(site: Site) -> None:
    tool = create_tool("tavily", "web_search", base_url="http://127.0.0.1:1", api_key=KEY)
    assert (await call_tool(tool, query="x")).startswith("Error: Unreachable: 127.0.0.1 cannot be reached")


@pytest.mark.parametrize("provider", EMPTY_RESULTS)
async def test_returns_a_hint_without_results(site: Site, provider: str) -> None:
    path, output = EMPTY_RESULTS[provider]
    site.routes[path] = output
    answer = orjson.loads(await search(site, provider, **get_key_settings(provider)))
    assert answer["results"] == [] and "other words" in answer["note"]


@pytest.mark.parametrize("provider", RESULTS)
async def test_all_searches_return_the_same_format(site: Site, provider: str) -> None:
    routes, expected = RESULTS[provider]
    site.routes.update(routes)
    answer = orjson.loads(await search(site, provider, **get_key_settings(provider)))
    assert answer == {"query": "red deer", "provider": answer["provider"], "results": expected}


REQUESTS: dict[str, Any] = {
    "tavily": lambda asked: (
        asked.headers["authorization"] == f"Bearer {KEY}"
        and asked.json == {"query": "red deer", "max_results": 3, "search_depth": "basic", "topic": "general"}
    ),
    "brave": lambda asked: (
        asked.headers["x-subscription-token"] == KEY
        and asked.params == {"q": "red deer", "count": "3", "text_decorations": "false"}
    ),
    "serper": lambda asked: asked.headers["x-api-key"] == KEY and asked.json == {"q": "red deer", "num": 3},
    "searxng": lambda asked: asked.params == {"q": "red deer", "format": "json"},
    "exa": lambda asked: (
        asked.headers["x-api-key"] == KEY
        and asked.json
        == {"query": "red deer", "numResults": 3, "type": "auto", "contents": {"text": {"maxCharacters": 1000}}}
    ),
    "firecrawl": lambda asked: (
        asked.headers["authorization"] == f"Bearer {KEY}" and asked.json == {"query": "red deer", "limit": 3}
    ),
    "ddg_search": lambda asked: asked.form == {"q": "red deer", "kl": "wt-wt", "kp": "-1"},
}


@pytest.mark.parametrize("provider", REQUESTS)
async def test_sends_the_request_the_provider_expects(site: Site, provider: str) -> None:
    site.routes.update(RESULTS[provider][0])
    await search(site, provider, max_results=3, **get_key_settings(provider))
    (asked,) = site.asked
    assert REQUESTS[provider](asked)


async def test_limits_the_number_of_results(site: Site) -> None:
    many = [{"title": str(n), "url": f"https://example.org/{n}", "content": "x" * 5000} for n in range(40)]
    site.routes["/search"] = json_response({"results": many})
    results = orjson.loads(await search(site, "searxng", max_results=2))["results"]
    assert [result["title"] for result in results] == ["0", "1"]
    assert len(results[0]["snippet"]) == 1000


async def test_reports_the_rate_limit_of_duckduckgo(site: Site) -> None:
    for output in (
        ScriptedResponse(b"", 202),
        html_response("<form id='challenge-form'><div class='anomaly-modal'></div></form>"),
    ):
        site.routes["/html/"] = output
        assert (await search(site, "ddg_search")).startswith("Error: RateLimited: duckduckgo has had too many requests")


IMAGE = {
    "title": "Deer",
    "url": PAGE,
    "image_url": "https://i.example/d.jpg",
    "thumbnail_url": "https://i.example/t.jpg",
}
IMAGES: dict[str, dict[str, ScriptedResponse]] = {
    "brave": {
        "/res/v1/images/search": json_response(
            {
                "results": [
                    {
                        "title": "Deer",
                        "url": PAGE,
                        "thumbnail": {"src": "https://i.example/t.jpg"},
                        "properties": {"url": "https://i.example/d.jpg", "width": 640, "height": 480},
                    }
                ]
            }
        )
    },
    "serper": {
        "/images": json_response(
            {
                "images": [
                    {
                        "title": "Deer",
                        "imageUrl": "https://i.example/d.jpg",
                        "imageWidth": 640,
                        "imageHeight": 480,
                        "thumbnailUrl": "https://i.example/t.jpg",
                        "link": PAGE,
                    }
                ]
            }
        )
    },
    "ddg_search": {
        "/": html_response('<html><script>DDG.x={}; vqd="4-123456789"; y=1</script></html>'),
        "/i.js": json_response(
            {
                "results": [
                    {
                        "title": "Deer",
                        "url": PAGE,
                        "image": "https://i.example/d.jpg",
                        "thumbnail": "https://i.example/t.jpg",
                        "width": 640,
                        "height": 480,
                    }
                ]
            }
        ),
    },
}


@pytest.mark.parametrize("provider", IMAGES)
async def test_all_image_searches_return_the_same_format(site: Site, provider: str) -> None:
    site.routes.update(IMAGES[provider])
    answer = orjson.loads(await search(site, provider, "image_search", **get_key_settings(provider)))
    assert answer["results"] == [{**IMAGE, "width": 640, "height": 480}]


async def test_sends_the_token_for_duckduckgo_images(site: Site) -> None:
    site.routes.update(IMAGES["ddg_search"])
    await search(site, "ddg_search", "image_search")
    assert site.asked[1].params["vqd"] == "4-123456789"
    site.routes["/"] = html_response("<html>no token</html>")
    assert (await search(site, "ddg_search", "image_search")).startswith(
        "Error: RateLimited: duckduckgo returns no images"
    )


PAGES: dict[str, tuple[str, ScriptedResponse]] = {
    "tavily": (
        "/extract",
        json_response({"results": [{"url": PAGE, "title": "Deer", "raw_content": "Text"}], "failed_results": []}),
    ),
    "exa": (
        "/contents",
        json_response(
            {"results": [{"url": PAGE, "title": "Deer", "text": "Text"}], "statuses": [{"status": "success"}]}
        ),
    ),
    "firecrawl": (
        "/v2/scrape",
        json_response(
            {
                "success": True,
                "data": {"markdown": "Text", "metadata": {"title": ["Deer"], "sourceURL": PAGE, "statusCode": 200}},
            }
        ),
    ),
    "jina_ai": (
        "/",
        json_response({"code": 200, "status": 20000, "data": {"title": "Deer", "url": PAGE, "content": "Text"}}),
    ),
}


async def fetch(site: Site, provider: str, url: str = PAGE, offset: int = 0, **settings: object) -> str:
    tool = create_tool(provider, "web_fetch", base_url=site.url, **{"api_key": KEY, **settings})
    return await call_tool(tool, url=url, offset=offset)


@pytest.mark.parametrize("provider", PAGES)
async def test_all_fetch_tools_return_the_same_format(site: Site, provider: str) -> None:
    path, site.routes[path] = PAGES[provider]
    assert await fetch(site, provider) == f"# Deer\nSource: {PAGE}\n\nText"
    (asked,) = site.asked
    assert PAGE in str(asked.json) and KEY in f"{asked.headers}"


@pytest.mark.parametrize("provider", PAGES)
async def test_refuses_an_invalid_url_without_a_request(site: Site, provider: str) -> None:
    for url in (
        "file:///etc/passwd",
        "example.org",
        "https://",
        "data:text/html,hello",
        "http://[::1",
        "ftp://a.example",
    ):
        assert "is not a valid URL" in await fetch(site, provider, url)
    assert site.asked == []


@pytest.mark.parametrize(
    ("provider", "path", "output", "message"),
    [
        ("tavily", "/extract", {"results": [], "failed_results": [{"url": PAGE, "error": "gone"}]}, "gone"),
        ("tavily", "/extract", {"results": []}, "no reason given"),
        (
            "exa",
            "/contents",
            {"results": [], "statuses": [{"status": "error", "error": {"tag": "CRAWL_NOT_FOUND"}}]},
            "CRAWL_NOT_FOUND",
        ),
        ("firecrawl", "/v2/scrape", {"data": {"metadata": {"statusCode": 404}}}, "status 404"),
    ],
)
async def test_reports_why_a_provider_cannot_read_a_page(
    site: Site, provider: str, path: str, output: object, message: str
) -> None:
    site.routes[path] = json_response(output)
    text = await fetch(site, provider)
    assert text.startswith("Error: Rejected: ") and message in text and PAGE in text


async def test_returns_pages_of_providers_in_chunks(site: Site) -> None:
    long = "".join(f"line {n}\n" for n in range(1000))
    site.routes["/"] = json_response({"data": {"title": "Long", "url": PAGE, "content": long}})
    first = await fetch(site, "jina_ai", max_chars=1000)
    assert "[Characters 0 to " in first and "Go on with offset=" in first


async def test_self_hosted_firecrawl_needs_no_key(site: Site) -> None:
    path, site.routes[path] = PAGES["firecrawl"]
    assert (await fetch(site, "firecrawl", api_key=None)).startswith("# Deer")
    assert "authorization" not in site.asked[0].headers
    hosted = create_tool("firecrawl", "web_fetch")
    assert "FIRECRAWL_API_KEY" in await call_tool(hosted, url=PAGE)


async def test_searxng_requires_a_base_url() -> None:
    assert "write `base_url`" in await call_tool(create_tool("searxng", "web_search"), query="x")


@pytest.mark.parametrize("provider", [*RESULTS, *PAGES])
def test_web_tools_are_read_only_and_hide_their_settings(provider: str) -> None:
    name = "web_search" if provider in RESULTS else "web_fetch"
    tool = create_tool(provider, name)
    assert tool.metadata == {READ_ONLY: True, UNTRUSTED: True}
    assert set(tool.args) == ({"query"} if name == "web_search" else {"url", "offset"})


async def test_model_cannot_change_settings(site: Site) -> None:
    site.routes.update(RESULTS["searxng"][0])
    tool = create_tool("searxng", "web_search", base_url=site.url)
    text = await call_tool(tool, query="red deer", base_url="http://evil.example", max_results=20)
    assert "evil.example" not in text
    assert site.paths == ["/search"]


async def test_tool_works_with_default_settings() -> None:
    from deerflow.community.tavily.tools import web_search_tool

    assert "TAVILY_API_KEY" in await call_tool(web_search_tool, query="x")
