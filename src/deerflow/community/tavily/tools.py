"""`web_search` and `web_fetch` by Tavily."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from deerflow.community.web.api import Text, ask_api, need_key
from deerflow.community.web.http import Ask, Http
from deerflow.community.web.problems import Rejected
from deerflow.community.web.results import Hit, Page
from deerflow.community.web.tool import KeyedSettings, PageSettings, SearchSettings, page_tool, search_tool

NAME, VARIABLE = "tavily", "TAVILY_API_KEY"


class TavilySettings(KeyedSettings):
    """Where Tavily is."""

    base_url: str = "https://api.tavily.com"


class TavilySearchSettings(TavilySettings, SearchSettings):
    """How Tavily searches."""

    search_depth: Literal["basic", "advanced"] = "basic"
    topic: Literal["general", "news", "finance"] = "general"


class TavilyPageSettings(TavilySettings, PageSettings):
    """How Tavily reads pages."""

    extract_depth: Literal["basic", "advanced"] = "basic"


class Found(BaseModel):
    """A result."""

    title: Text = ""
    url: Text = ""
    content: Text = ""
    published_date: str | None = None


class Results(BaseModel):
    """What a search answers."""

    results: list[Found] = Field(default_factory=list)


class Extracted(BaseModel):
    """A page."""

    url: Text = ""
    title: Text = ""
    raw_content: Text = ""


class Failed(BaseModel):
    """A page that could not be had."""

    error: Text = ""


class Extract(BaseModel):
    """What an extraction answers."""

    results: list[Extracted] = Field(default_factory=list)
    failed_results: list[Failed] = Field(default_factory=list)


async def search(query: str, settings: TavilySearchSettings, http: Http) -> Sequence[Hit]:
    """Pages for a query."""
    wanted = {
        "query": query,
        "max_results": settings.max_results,
        "search_depth": settings.search_depth,
        "topic": settings.topic,
    }
    answer = await ask_api(http, NAME, ask(settings, "/search", wanted), Results)
    return [Hit(found.title, found.url, found.content, found.published_date) for found in answer.results]


async def fetch(url: str, settings: TavilyPageSettings, http: Http) -> Page:
    """A page by its address."""
    wanted = {"urls": [url], "format": "markdown", "extract_depth": settings.extract_depth}
    answer = await ask_api(http, NAME, ask(settings, "/extract", wanted), Extract)
    if not answer.results:
        reason = answer.failed_results[0].error if answer.failed_results else ""
        raise Rejected(f"{NAME} cannot read {url}: {reason or 'it does not say why'}; try another source")
    page = answer.results[0]
    return Page(page.url or url, page.title, page.raw_content)


def ask(settings: TavilySettings, path: str, wanted: object) -> Ask:
    """A request that carries the key."""
    headers = {"Authorization": f"Bearer {need_key(NAME, settings.api_key, VARIABLE)}"}
    return Ask(f"{settings.base_url.rstrip('/')}{path}", "POST", headers, json=wanted)


web_search_tool = search_tool(NAME, TavilySearchSettings, search)
web_fetch_tool = page_tool(TavilyPageSettings, fetch)
