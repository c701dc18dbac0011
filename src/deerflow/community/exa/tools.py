"""`web_search` and `web_fetch` by Exa."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from deerflow.community.web.api import Text, ask_api, need_key
from deerflow.community.web.http import Ask, Http
from deerflow.community.web.problems import Rejected
from deerflow.community.web.results import MAX_SNIPPET_CHARS, Hit, Page
from deerflow.community.web.tool import KeyedSettings, PageSettings, SearchSettings, page_tool, search_tool

NAME, VARIABLE = "exa", "EXA_API_KEY"


class ExaSettings(KeyedSettings):
    """Where Exa is."""

    base_url: str = "https://api.exa.ai"


class ExaSearchSettings(ExaSettings, SearchSettings):
    """How Exa searches."""

    search_type: Literal["auto", "fast", "keyword", "neural", "deep"] = "auto"


class ExaPageSettings(ExaSettings, PageSettings):
    """How Exa reads pages."""


class Found(BaseModel):
    """A page."""

    title: Text = ""
    url: Text = ""
    published: str | None = Field(default=None, alias="publishedDate")
    text: Text = ""


class Failure(BaseModel):
    """Why a page could not be had."""

    tag: Text = ""


class Status(BaseModel):
    """How it went with one page."""

    status: Text = ""
    error: Failure | None = None


class Results(BaseModel):
    """What a search answers, and also a request for pages."""

    results: list[Found] = Field(default_factory=list)
    statuses: list[Status] = Field(default_factory=list)


async def search(query: str, settings: ExaSearchSettings, http: Http) -> Sequence[Hit]:
    """Pages for a query."""
    wanted = {
        "query": query,
        "numResults": settings.max_results,
        "type": settings.search_type,
        "contents": {"text": {"maxCharacters": MAX_SNIPPET_CHARS}},
    }
    answer = await ask_api(http, NAME, ask(settings, "/search", wanted), Results)
    return [Hit(found.title, found.url, found.text, found.published) for found in answer.results]


async def fetch(url: str, settings: ExaPageSettings, http: Http) -> Page:
    """A page by its address."""
    answer = await ask_api(http, NAME, ask(settings, "/contents", {"urls": [url], "text": True}), Results)
    if not answer.results:
        failures = [status.error.tag for status in answer.statuses if status.error]
        reason = failures[0] if failures else "it does not say why"
        raise Rejected(f"{NAME} cannot read {url}: {reason}; try another source")
    page = answer.results[0]
    return Page(page.url or url, page.title, page.text)


def ask(settings: ExaSettings, path: str, wanted: object) -> Ask:
    """A request that carries the key."""
    headers = {"x-api-key": need_key(NAME, settings.api_key, VARIABLE)}
    return Ask(f"{settings.base_url.rstrip('/')}{path}", "POST", headers, json=wanted)


web_search_tool = search_tool(NAME, ExaSearchSettings, search)
web_fetch_tool = page_tool(ExaPageSettings, fetch)
