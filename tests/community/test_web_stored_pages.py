"""Storage of the pages that an agent reads."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deerflow.services.queries import PageLimits
from deerflow.testing import ScriptedModel, calling
from tests.community.stored_pages import build_fetch_tools, list_pages, store_pages
from tests.community.web_site import Site, html_response, json_response, open_site, redirect
from tests.sandbox.support import ask, open_sandbox_harness, tool_results

OFF = {"enabled": False}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


async def test_stores_pages_and_failures(tmp_path: Path, site: Site) -> None:
    site.routes["/old"] = redirect("/new")
    site.routes["/new"] = html_response("<title>New</title><p>Herons fish.</p>")
    site.routes["/long"] = html_response("<p>" + "heron " * 300 + "</p>")
    calls = [calling("web_fetch", url=f"{site.url}/{path}") for path in ("old", "gone", "long")]
    more = calling("web_fetch", url=f"{site.url}/long", offset=500)
    model = ScriptedModel.saying(*calls, more, "Done.")
    async with open_sandbox_harness(tmp_path, model, tools=build_fetch_tools(max_chars=500), guardrails=OFF) as harness:
        await ask(harness)
        shown = [answer["content"] for answer in await tool_results(harness)]
    asked = len(site.asked)
    site.routes["/long"] = html_response("<p>Something else.</p>")
    model = ScriptedModel.saying(calling("web_fetch", url=f"{site.url}/long", offset=1000), "Done.")
    async with open_sandbox_harness(
        tmp_path, model, tools=build_fetch_tools(max_chars=500), guardrails=OFF
    ) as harness:  # another process
        await ask(harness)
        last = (await tool_results(harness))[-1]["content"]
        new, gone, long = await list_pages(harness)
    assert "heron" in last and "[Characters 1000 to" in last and len(site.asked) == asked, "the page as it was begun"
    assert new == {"asked": f"{site.url}/old", "url": f"{site.url}/new", "text": "Herons fish.", "problem": None}
    assert gone["problem"].startswith("Rejected: there is no page at ") and gone["text"] == ""
    assert long["text"].count("heron") == 300 and long["text"].count("heron") > shown[2].count("heron"), "all of it"
    assert shown[1].startswith("Error: Rejected: ") and "not kept" not in "".join(shown)


async def test_stores_pages_of_providers_and_reads_pages_that_cannot_be_stored(tmp_path: Path, site: Site) -> None:
    site.routes["/"] = json_response(
        {"data": {"title": "Herons", "url": "https://b.example/", "content": "They fish."}}
    )
    jina = {"name": "web_fetch", "group": "web", "use": "deerflow.community.jina_ai.tools:web_fetch_tool"}
    fetch = [calling("web_fetch", url=url) for url in ("https://a.example/", "https://c.example/")]
    model = ScriptedModel.saying(fetch[0], "Done.", fetch[1], "Done.")
    async with open_sandbox_harness(tmp_path, model, tools=[{**jina, "base_url": site.url}], guardrails=OFF) as harness:
        await ask(harness)
        assert await list_pages(harness) == [
            {"asked": "https://a.example/", "url": "https://b.example/", "text": "They fish.", "problem": None}
        ]
        await store_pages(harness.resources.web_pages, PageLimits().pages)
        await ask(harness)
        kept, not_kept = [answer["content"] for answer in await tool_results(harness)]
    assert "They fish." in not_kept and "[This page is not kept, for the thread holds" in not_kept
    assert "not kept" not in kept
