"""`web_search` and `image_search` by Brave."""

from collections.abc import Mapping, Sequence
from html import unescape

from pydantic import BaseModel, Field

from deerflow.community.web.api import Text, ask_api, need_key
from deerflow.community.web.http import Ask, Http
from deerflow.community.web.results import Hit, Picture
from deerflow.community.web.tool import KeyedSettings, SearchSettings, image_tool, search_tool

NAME, VARIABLE = "brave", "BRAVE_SEARCH_API_KEY"


class BraveSettings(KeyedSettings, SearchSettings):
    """How Brave searches."""

    base_url: str = "https://api.search.brave.com"
    country: str | None = Field(default=None, description="Two letters, for instance DE.")
    search_lang: str | None = Field(default=None, description="A language, for instance de.")


class Found(BaseModel):
    """A page."""

    title: Text = ""
    url: Text = ""
    description: Text = ""
    page_age: str | None = None


class Web(BaseModel):
    """The pages."""

    results: list[Found] = Field(default_factory=list)


class Results(BaseModel):
    """What a search answers; it has no pages if there are none."""

    web: Web = Web()


class Thumbnail(BaseModel):
    """A small version of an image."""

    src: str | None = None


class Properties(BaseModel):
    """The image itself."""

    url: Text = ""
    width: int | None = None
    height: int | None = None


class FoundImage(BaseModel):
    """An image, and the page it is on."""

    title: Text = ""
    url: Text = ""
    thumbnail: Thumbnail = Thumbnail()
    properties: Properties = Properties()


class Images(BaseModel):
    """What a search for images answers."""

    results: list[FoundImage] = Field(default_factory=list)


async def search(query: str, settings: BraveSettings, http: Http) -> Sequence[Hit]:
    """Pages for a query."""
    more = {"text_decorations": "false"}  # no tags around the words that were looked for
    answer = await ask_api(http, NAME, ask(settings, "/res/v1/web/search", query, more), Results)
    return [
        Hit(unescape(found.title), found.url, unescape(found.description), found.page_age)
        for found in answer.web.results
    ]


async def search_images(query: str, settings: BraveSettings, http: Http) -> Sequence[Picture]:
    """Images for a query."""
    answer = await ask_api(http, NAME, ask(settings, "/res/v1/images/search", query, {}), Images)
    return [
        Picture(
            unescape(found.title),
            found.url,
            found.properties.url,
            found.thumbnail.src,
            found.properties.width,
            found.properties.height,
        )
        for found in answer.results
    ]


def ask(settings: BraveSettings, path: str, query: str, more: Mapping[str, str]) -> Ask:
    """A request that carries the key."""
    headers = {"X-Subscription-Token": need_key(NAME, settings.api_key, VARIABLE), "Accept": "application/json"}
    where = {"country": settings.country, "search_lang": settings.search_lang}
    chosen = {key: value for key, value in where.items() if value}
    params: dict[str, str | int] = {"q": query, "count": settings.max_results, **more, **chosen}
    return Ask(f"{settings.base_url.rstrip('/')}{path}", headers=headers, params=params)


web_search_tool = search_tool(NAME, BraveSettings, search)
image_search_tool = image_tool(NAME, BraveSettings, search_images)
