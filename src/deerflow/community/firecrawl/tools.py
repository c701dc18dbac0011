"""`web_search` and `web_fetch` with Firecrawl."""

from collections.abc import Sequence

from pydantic import BaseModel, Field, field_validator

from deerflow.community.web.http import HttpClient, OptionalText, Rejected, WebRequest, call_api, require_key
from deerflow.community.web.results import PageContent, WebSearchHit
from deerflow.community.web.tool import KeyedSettings, PageSettings, SearchSettings, make_page_tool, make_search_tool
from deerflow.config.sections.tools import WEB_KEY_VARIABLES

NAME = "firecrawl"
VARIABLE = WEB_KEY_VARIABLES[NAME]
HOSTED = "https://api.firecrawl.dev"


class FirecrawlSettings(KeyedSettings):
    """Common settings of Firecrawl; a self-hosted one needs no key."""

    base_url: str = HOSTED


class FirecrawlSearchSettings(FirecrawlSettings, SearchSettings):
    """Settings of the search."""


class FirecrawlPageSettings(FirecrawlSettings, PageSettings):
    """Settings of page fetches."""

    timeout: float = Field(default=60.0, gt=0, le=300, description="Timeout in seconds.")


class FirecrawlHit(BaseModel):
    """A page."""

    title: OptionalText = ""
    url: OptionalText = ""
    description: OptionalText = ""


class FirecrawlGroups(BaseModel):
    """Results by kind."""

    web: list[FirecrawlHit] = Field(default_factory=list)


class FirecrawlSearchResponse(BaseModel):
    """Response of a search."""

    data: FirecrawlGroups = FirecrawlGroups()

    @field_validator("data", mode="before")
    @classmethod
    def _of_any_version(cls, data: object) -> object:
        """The version before gave the pages without a group."""
        return {"web": data} if isinstance(data, list) else data


class FirecrawlMetadata(BaseModel):
    """Metadata of a page."""

    title: OptionalText = ""
    url: OptionalText = Field(default="", alias="sourceURL")
    status: int = Field(default=200, alias="statusCode")
    error: OptionalText = ""

    @field_validator("title", mode="before")
    @classmethod
    def _first(cls, title: object) -> object:
        """A page may have several."""
        return title[0] if isinstance(title, list) and title else title


class FirecrawlPage(BaseModel):
    """A page."""

    markdown: OptionalText = ""
    metadata: FirecrawlMetadata = FirecrawlMetadata()


class FirecrawlScrapeResponse(BaseModel):
    """Response of a page request."""

    data: FirecrawlPage = FirecrawlPage()


async def search(query: str, settings: FirecrawlSearchSettings, http: HttpClient) -> Sequence[WebSearchHit]:
    """Return pages for a query."""
    body = {"query": query, "limit": settings.max_results}
    response = await call_api(http, NAME, make_request(settings, "/v2/search", body), FirecrawlSearchResponse)
    return [WebSearchHit(found.title, found.url, found.description) for found in response.data.web]


async def fetch(url: str, settings: FirecrawlPageSettings, http: HttpClient) -> PageContent:
    """Return a page by its URL."""
    body = {"url": url, "formats": ["markdown"]}
    page = (await call_api(http, NAME, make_request(settings, "/v2/scrape", body), FirecrawlScrapeResponse)).data
    if page.metadata.status >= 400:
        reason = page.metadata.error or f"status {page.metadata.status}"
        raise Rejected(f"{NAME} cannot read {url}: {reason}; try another source")
    return PageContent(page.metadata.url or url, page.metadata.title, page.markdown)


def make_request(settings: FirecrawlSettings, path: str, body: object) -> WebRequest:
    """Return a request, with the API key if one is needed."""
    headers = {}
    if settings.api_key or settings.base_url == HOSTED:
        headers = {"Authorization": f"Bearer {require_key(NAME, settings.api_key, VARIABLE)}"}
    return WebRequest(f"{settings.base_url.rstrip('/')}{path}", "POST", headers, json=body)


web_search_tool = make_search_tool(NAME, FirecrawlSearchSettings, search)
web_fetch_tool = make_page_tool(FirecrawlPageSettings, fetch)
