"""`web_search` and `web_fetch` with Tavily."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from deerflow.community.web.http import HttpClient, OptionalText, Rejected, WebRequest, call_api, require_key
from deerflow.community.web.results import PageContent, WebSearchHit
from deerflow.community.web.tool import KeyedSettings, PageSettings, SearchSettings, make_page_tool, make_search_tool
from deerflow.config.sections.tools import WEB_KEY_VARIABLES

NAME = "tavily"
VARIABLE = WEB_KEY_VARIABLES[NAME]


class TavilySettings(KeyedSettings):
    """Common settings of Tavily."""

    base_url: str = "https://api.tavily.com"


class TavilySearchSettings(TavilySettings, SearchSettings):
    """Settings of the search."""

    search_depth: Literal["basic", "advanced"] = "basic"
    topic: Literal["general", "news", "finance"] = "general"


class TavilyPageSettings(TavilySettings, PageSettings):
    """Settings of page fetches."""

    extract_depth: Literal["basic", "advanced"] = "basic"


class TavilyHit(BaseModel):
    """A page."""

    title: OptionalText = ""
    url: OptionalText = ""
    content: OptionalText = ""
    published_date: str | None = None


class TavilySearchResponse(BaseModel):
    """Response of a search."""

    results: list[TavilyHit] = Field(default_factory=list)


class TavilyPage(BaseModel):
    """A page."""

    url: OptionalText = ""
    title: OptionalText = ""
    raw_content: OptionalText = ""


class TavilyFailure(BaseModel):
    """A page that could not be read."""

    error: OptionalText = ""


class TavilyExtractResponse(BaseModel):
    """Response of an extraction."""

    results: list[TavilyPage] = Field(default_factory=list)
    failed_results: list[TavilyFailure] = Field(default_factory=list)


async def search(query: str, settings: TavilySearchSettings, http: HttpClient) -> Sequence[WebSearchHit]:
    """Return pages for a query."""
    body = {
        "query": query,
        "max_results": settings.max_results,
        "search_depth": settings.search_depth,
        "topic": settings.topic,
    }
    response = await call_api(http, NAME, make_request(settings, "/search", body), TavilySearchResponse)
    return [WebSearchHit(found.title, found.url, found.content, found.published_date) for found in response.results]


async def fetch(url: str, settings: TavilyPageSettings, http: HttpClient) -> PageContent:
    """Return a page by its URL."""
    body = {"urls": [url], "format": "markdown", "extract_depth": settings.extract_depth}
    response = await call_api(http, NAME, make_request(settings, "/extract", body), TavilyExtractResponse)
    if not response.results:
        reason = response.failed_results[0].error if response.failed_results else ""
        raise Rejected(f"{NAME} cannot read {url}: {reason or 'no reason given'}; try another source")
    page = response.results[0]
    return PageContent(page.url or url, page.title, page.raw_content)


def make_request(settings: TavilySettings, path: str, body: object) -> WebRequest:
    """Return a request with the API key."""
    headers = {"Authorization": f"Bearer {require_key(NAME, settings.api_key, VARIABLE)}"}
    return WebRequest(f"{settings.base_url.rstrip('/')}{path}", "POST", headers, json=body)


web_search_tool = make_search_tool(NAME, TavilySearchSettings, search)
web_fetch_tool = make_page_tool(TavilyPageSettings, fetch)
