"""What an agent reads is kept with its thread, whoever fetches it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deerflow.persistence.pages import PageLimits
from deerflow.testing import ScriptedModel, calling
from tests.community.keeping import fill, pages_of, reading_tools
from tests.community.web_site import Site, html_answer, json_answer, open_site, redirect
from tests.sandbox.desk import answers, ask, desk

OFF = {"enabled": False}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


async def test_what_an_agent_reads_is_kept_and_what_it_cannot_read_too(tmp_path: Path, site: Site) -> None:
    site.routes["/old"] = redirect("/new")
    site.routes["/new"] = html_answer("<title>New</title><p>Herons fish.</p>")
    site.routes["/long"] = html_answer("<p>" + "heron " * 300 + "</p>")
    calls = [calling("web_fetch", url=f"{site.url}/{path}") for path in ("old", "gone", "long")]
    more = calling("web_fetch", url=f"{site.url}/long", offset=500)
    model = ScriptedModel.saying(*calls, more, "Done.")
    async with desk(tmp_path, model, tools=reading_tools(max_chars=500), guardrails=OFF) as harness:
        await ask(harness)
        shown = [answer["content"] for answer in await answers(harness)]
    asked = len(site.asked)
    site.routes["/long"] = html_answer("<p>Something else.</p>")
    model = ScriptedModel.saying(calling("web_fetch", url=f"{site.url}/long", offset=1000), "Done.")
    async with desk(tmp_path, model, tools=reading_tools(max_chars=500), guardrails=OFF) as harness:  # another process
        await ask(harness)
        last = (await answers(harness))[-1]["content"]
        new, gone, long = await pages_of(harness)
    assert "heron" in last and "[Characters 1000 to" in last and len(site.asked) == asked, "the page as it was begun"
    assert new == {"asked": f"{site.url}/old", "url": f"{site.url}/new", "text": "Herons fish.", "problem": None}
    assert gone["problem"].startswith("Rejected: there is no page at ") and gone["text"] == ""
    assert long["text"].count("heron") == 300 and long["text"].count("heron") > shown[2].count("heron"), "all of it"
    assert shown[1].startswith("Error: Rejected: ") and "not kept" not in "".join(shown)


async def test_pages_of_providers_are_kept_too_and_one_that_cannot_be_is_read_all_the_same(
    tmp_path: Path, site: Site
) -> None:
    site.routes["/"] = json_answer({"data": {"title": "Herons", "url": "https://b.example/", "content": "They fish."}})
    jina = {"name": "web_fetch", "group": "web", "use": "deerflow.community.jina_ai.tools:web_fetch_tool"}
    fetch = [calling("web_fetch", url=url) for url in ("https://a.example/", "https://c.example/")]
    model = ScriptedModel.saying(fetch[0], "Done.", fetch[1], "Done.")
    async with desk(tmp_path, model, tools=[{**jina, "base_url": site.url}], guardrails=OFF) as harness:
        await ask(harness)
        assert await pages_of(harness) == [
            {"asked": "https://a.example/", "url": "https://b.example/", "text": "They fish.", "problem": None}
        ]
        await fill(harness.resources.web_pages, PageLimits().pages)
        await ask(harness)
        kept, not_kept = [answer["content"] for answer in await answers(harness)]
    assert "They fish." in not_kept and "[This page is not kept, for the thread holds" in not_kept
    assert "not kept" not in kept
