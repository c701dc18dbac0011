"""`web_search` by a SearXNG."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from deerflow.community.web.api import Text, ask_api
from deerflow.community.web.http import Ask, Http
from deerflow.community.web.problems import MissingKey, Rejected
from deerflow.community.web.results import Hit
from deerflow.community.web.tool import SearchSettings, search_tool

NAME = "searxng"


class SearxngSettings(SearchSettings):
    """Where the SearXNG is, and how it searches."""

    base_url: str | None = Field(default=None, description="For instance http://127.0.0.1:8888.")
    language: str | None = Field(default=None, description="A language, for instance de.")
    categories: str | None = Field(default=None, description="For instance general,science.")


class Found(BaseModel):
    """A page."""

    title: Text = ""
    url: Text = ""
    content: Text = ""
    published: str | None = Field(default=None, alias="publishedDate")


class Results(BaseModel):
    """What a search answers."""

    results: list[Found] = Field(default_factory=list)


async def search(query: str, settings: SearxngSettings, http: Http) -> Sequence[Hit]:
    """Pages for a query."""
    if not settings.base_url:
        raise MissingKey(f"{NAME} has no address: write `base_url` into the entry of this tool in config.yaml")
    how = {"language": settings.language, "categories": settings.categories}
    params = {"q": query, "format": "json", **{key: value for key, value in how.items() if value}}
    ask = Ask(f"{settings.base_url.rstrip('/')}/search", params=params)
    try:
        answer = await ask_api(http, NAME, ask, Results)
    except MissingKey:  # it has no keys; this is how it refuses a format
        raise Rejected(
            f"{NAME} gives no JSON: whoever runs it has to add `json` to `search.formats` in its settings.yml"
        ) from None
    return [Hit(found.title, found.url, found.content, found.published) for found in answer.results]


web_search_tool = search_tool(NAME, SearxngSettings, search)
