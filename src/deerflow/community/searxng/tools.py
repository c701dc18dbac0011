"""`web_search` with SearXNG."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from deerflow.community.web.http import HttpClient, MissingKey, OptionalText, Rejected, WebRequest, call_api
from deerflow.community.web.results import WebSearchHit
from deerflow.community.web.tool import SearchSettings, make_search_tool

NAME = "searxng"


class SearxngSettings(SearchSettings):
    """Settings of SearXNG."""

    base_url: str | None = Field(default=None, description="For example http://127.0.0.1:8888.")
    language: str | None = Field(default=None, description="A language, for example de.")
    categories: str | None = Field(default=None, description="For example general,science.")


class SearxngHit(BaseModel):
    """A page."""

    title: OptionalText = ""
    url: OptionalText = ""
    content: OptionalText = ""
    published: str | None = Field(default=None, alias="publishedDate")


class SearxngResponse(BaseModel):
    """Response of a search."""

    results: list[SearxngHit] = Field(default_factory=list)


async def search(query: str, settings: SearxngSettings, http: HttpClient) -> Sequence[WebSearchHit]:
    """Return pages for a query."""
    if not settings.base_url:
        raise MissingKey(f"{NAME} has no address: write `base_url` into the entry of this tool in config.yaml")
    how = {"language": settings.language, "categories": settings.categories}
    params = {"q": query, "format": "json", **{key: value for key, value in how.items() if value}}
    request = WebRequest(f"{settings.base_url.rstrip('/')}/search", params=params)
    try:
        response = await call_api(http, NAME, request, SearxngResponse)
    except MissingKey:  # it has no keys; status 403 means that the format is disabled
        raise Rejected(f"{NAME} does not return JSON: add `json` to `search.formats` in its settings.yml") from None
    return [WebSearchHit(found.title, found.url, found.content, found.published) for found in response.results]


web_search_tool = make_search_tool(NAME, SearxngSettings, search)
