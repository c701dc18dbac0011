"""`web_search` and `image_search` by Serper."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from deerflow.community.web.api import Text, ask_api, need_key
from deerflow.community.web.http import Ask, Http
from deerflow.community.web.results import Hit, Picture
from deerflow.community.web.tool import KeyedSettings, SearchSettings, image_tool, search_tool

NAME, VARIABLE = "serper", "SERPER_API_KEY"


class SerperSettings(KeyedSettings, SearchSettings):
    """How Serper searches."""

    base_url: str = "https://google.serper.dev"
    gl: str | None = Field(default=None, description="A country, for instance de.")
    hl: str | None = Field(default=None, description="A language, for instance de.")


class Found(BaseModel):
    """A page."""

    title: Text = ""
    link: Text = ""
    snippet: Text = ""
    date: str | None = None


class Results(BaseModel):
    """What a search answers."""

    organic: list[Found] = Field(default_factory=list)


class FoundImage(BaseModel):
    """An image, and the page it is on."""

    title: Text = ""
    link: Text = ""
    image_url: Text = Field(default="", alias="imageUrl")
    thumbnail_url: str | None = Field(default=None, alias="thumbnailUrl")
    width: int | None = Field(default=None, alias="imageWidth")
    height: int | None = Field(default=None, alias="imageHeight")


class Images(BaseModel):
    """What a search for images answers."""

    images: list[FoundImage] = Field(default_factory=list)


async def search(query: str, settings: SerperSettings, http: Http) -> Sequence[Hit]:
    """Pages for a query."""
    answer = await ask_api(http, NAME, ask(settings, "/search", query), Results)
    return [Hit(found.title, found.link, found.snippet, found.date) for found in answer.organic]


async def search_images(query: str, settings: SerperSettings, http: Http) -> Sequence[Picture]:
    """Images for a query."""
    answer = await ask_api(http, NAME, ask(settings, "/images", query), Images)
    return [
        Picture(found.title, found.link, found.image_url, found.thumbnail_url, found.width, found.height)
        for found in answer.images
    ]


def ask(settings: SerperSettings, path: str, query: str) -> Ask:
    """A request that carries the key."""
    headers = {"X-API-KEY": need_key(NAME, settings.api_key, VARIABLE)}
    where = {"gl": settings.gl, "hl": settings.hl}
    wanted = {"q": query, "num": settings.max_results, **{key: value for key, value in where.items() if value}}
    return Ask(f"{settings.base_url.rstrip('/')}{path}", "POST", headers, json=wanted)


web_search_tool = search_tool(NAME, SerperSettings, search)
image_search_tool = image_tool(NAME, SerperSettings, search_images)
