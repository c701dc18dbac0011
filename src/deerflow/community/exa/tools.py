"""`web_search` and `web_fetch` with Exa."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from deerflow.community.web.http import HttpClient, OptionalText, Rejected, WebRequest, call_api, require_key
from deerflow.community.web.results import MAX_SNIPPET_CHARS, PageContent, WebSearchHit
from deerflow.community.web.tool import KeyedSettings, PageSettings, SearchSettings, make_page_tool, make_search_tool
from deerflow.config.sections.tools import WEB_KEY_VARIABLES

NAME = "exa"
VARIABLE = WEB_KEY_VARIABLES[NAME]


class ExaSettings(KeyedSettings):
    """Common settings of Exa."""

    base_url: str = "https://api.exa.ai"


class ExaSearchSettings(ExaSettings, SearchSettings):
    """Settings of the search."""

    search_type: Literal["auto", "fast", "keyword", "neural", "deep"] = "auto"


class ExaPageSettings(ExaSettings, PageSettings):
    """Settings of page fetches."""


class ExaHit(BaseModel):
    """A page."""

    title: OptionalText = ""
    url: OptionalText = ""
    published: str | None = Field(default=None, alias="publishedDate")
    text: OptionalText = ""


class ExaError(BaseModel):
    """Error of a page."""

    tag: OptionalText = ""


class ExaStatus(BaseModel):
    """Status of one page."""

    status: OptionalText = ""
    error: ExaError | None = None


class ExaResponse(BaseModel):
    """Response of a search or a page request."""

    results: list[ExaHit] = Field(default_factory=list)
    statuses: list[ExaStatus] = Field(default_factory=list)


async def search(query: str, settings: ExaSearchSettings, http: HttpClient) -> Sequence[WebSearchHit]:
    """Return pages for a query."""
    body = {
        "query": query,
        "numResults": settings.max_results,
        "type": settings.search_type,
        "contents": {"text": {"maxCharacters": MAX_SNIPPET_CHARS}},
    }
    response = await call_api(http, NAME, make_request(settings, "/search", body), ExaResponse)
    return [WebSearchHit(found.title, found.url, found.text, found.published) for found in response.results]


async def fetch(url: str, settings: ExaPageSettings, http: HttpClient) -> PageContent:
    """Return a page by its URL."""
    response = await call_api(
        http, NAME, make_request(settings, "/contents", {"urls": [url], "text": True}), ExaResponse
    )
    if not response.results:
        failures = [status.error.tag for status in response.statuses if status.error]
        reason = failures[0] if failures else "no reason given"
        raise Rejected(f"{NAME} cannot read {url}: {reason}; try another source")
    page = response.results[0]
    return PageContent(page.url or url, page.title, page.text)


def make_request(settings: ExaSettings, path: str, body: object) -> WebRequest:
    """Return a request with the API key."""
    headers = {"x-api-key": require_key(NAME, settings.api_key, VARIABLE)}
    return WebRequest(f"{settings.base_url.rstrip('/')}{path}", "POST", headers, json=body)


web_search_tool = make_search_tool(NAME, ExaSearchSettings, search)
web_fetch_tool = make_page_tool(ExaPageSettings, fetch)
