"""`web_search` and `web_fetch` by Firecrawl."""

from collections.abc import Sequence

from pydantic import BaseModel, Field, field_validator

from deerflow.community.web.api import Text, ask_api, need_key
from deerflow.community.web.http import Ask, Http
from deerflow.community.web.problems import Rejected
from deerflow.community.web.results import Hit, Page
from deerflow.community.web.tool import KeyedSettings, PageSettings, SearchSettings, page_tool, search_tool

NAME, VARIABLE = "firecrawl", "FIRECRAWL_API_KEY"
HOSTED = "https://api.firecrawl.dev"


class FirecrawlSettings(KeyedSettings):
    """Where Firecrawl is; one of one's own needs no key."""

    base_url: str = HOSTED


class FirecrawlSearchSettings(FirecrawlSettings, SearchSettings):
    """How Firecrawl searches."""


class FirecrawlPageSettings(FirecrawlSettings, PageSettings):
    """How Firecrawl reads pages."""

    timeout: float = Field(default=60.0, gt=0, le=300, description="After so many seconds the tool gives up.")


class Found(BaseModel):
    """A page that was found."""

    title: Text = ""
    url: Text = ""
    description: Text = ""


class Groups(BaseModel):
    """Results by kind."""

    web: list[Found] = Field(default_factory=list)


class Results(BaseModel):
    """What a search answers."""

    data: Groups = Groups()

    @field_validator("data", mode="before")
    @classmethod
    def _of_any_version(cls, data: object) -> object:
        """The version before gave the pages without a group."""
        return {"web": data} if isinstance(data, list) else data


class Metadata(BaseModel):
    """What is known of a page."""

    title: Text = ""
    url: Text = Field(default="", alias="sourceURL")
    status: int = Field(default=200, alias="statusCode")
    error: Text = ""

    @field_validator("title", mode="before")
    @classmethod
    def _first(cls, title: object) -> object:
        """A page may have several."""
        return title[0] if isinstance(title, list) and title else title


class Content(BaseModel):
    """A page."""

    markdown: Text = ""
    metadata: Metadata = Metadata()


class Scraped(BaseModel):
    """What a request for a page answers."""

    data: Content = Content()


async def search(query: str, settings: FirecrawlSearchSettings, http: Http) -> Sequence[Hit]:
    """Pages for a query."""
    wanted = {"query": query, "limit": settings.max_results}
    answer = await ask_api(http, NAME, ask(settings, "/v2/search", wanted), Results)
    return [Hit(found.title, found.url, found.description) for found in answer.data.web]


async def fetch(url: str, settings: FirecrawlPageSettings, http: Http) -> Page:
    """A page by its address."""
    wanted = {"url": url, "formats": ["markdown"]}
    page = (await ask_api(http, NAME, ask(settings, "/v2/scrape", wanted), Scraped)).data
    if page.metadata.status >= 400:
        reason = page.metadata.error or f"status {page.metadata.status}"
        raise Rejected(f"{NAME} cannot read {url}: {reason}; try another source")
    return Page(page.metadata.url or url, page.metadata.title, page.markdown)


def ask(settings: FirecrawlSettings, path: str, wanted: object) -> Ask:
    """A request that carries the key, where one is needed."""
    headers = {}
    if settings.api_key or settings.base_url == HOSTED:
        headers = {"Authorization": f"Bearer {need_key(NAME, settings.api_key, VARIABLE)}"}
    return Ask(f"{settings.base_url.rstrip('/')}{path}", "POST", headers, json=wanted)


web_search_tool = search_tool(NAME, FirecrawlSearchSettings, search)
web_fetch_tool = page_tool(FirecrawlPageSettings, fetch)
