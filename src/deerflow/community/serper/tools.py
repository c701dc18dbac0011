"""`web_search` and `image_search` with Serper."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from deerflow.community.web.http import HttpClient, OptionalText, WebRequest, call_api, require_key
from deerflow.community.web.results import ImageHit, WebSearchHit
from deerflow.community.web.tool import KeyedSettings, SearchSettings, make_image_tool, make_search_tool
from deerflow.config.sections.tools import WEB_KEY_VARIABLES

NAME = "serper"
VARIABLE = WEB_KEY_VARIABLES[NAME]


class SerperSettings(KeyedSettings, SearchSettings):
    """Settings of Serper."""

    base_url: str = "https://google.serper.dev"
    gl: str | None = Field(default=None, description="A country, for example de.")
    hl: str | None = Field(default=None, description="A language, for example de.")


class SerperHit(BaseModel):
    """A page."""

    title: OptionalText = ""
    link: OptionalText = ""
    snippet: OptionalText = ""
    date: str | None = None


class SerperResponse(BaseModel):
    """Response of a search."""

    organic: list[SerperHit] = Field(default_factory=list)


class SerperImage(BaseModel):
    """An image and the page it is on."""

    title: OptionalText = ""
    link: OptionalText = ""
    image_url: OptionalText = Field(default="", alias="imageUrl")
    thumbnail_url: str | None = Field(default=None, alias="thumbnailUrl")
    width: int | None = Field(default=None, alias="imageWidth")
    height: int | None = Field(default=None, alias="imageHeight")


class SerperImageResponse(BaseModel):
    """Response of an image search."""

    images: list[SerperImage] = Field(default_factory=list)


async def search(query: str, settings: SerperSettings, http: HttpClient) -> Sequence[WebSearchHit]:
    """Return pages for a query."""
    response = await call_api(http, NAME, make_request(settings, "/search", query), SerperResponse)
    return [WebSearchHit(found.title, found.link, found.snippet, found.date) for found in response.organic]


async def search_images(query: str, settings: SerperSettings, http: HttpClient) -> Sequence[ImageHit]:
    """Return images for a query."""
    response = await call_api(http, NAME, make_request(settings, "/images", query), SerperImageResponse)
    return [
        ImageHit(found.title, found.link, found.image_url, found.thumbnail_url, found.width, found.height)
        for found in response.images
    ]


def make_request(settings: SerperSettings, path: str, query: str) -> WebRequest:
    """Return a request with the API key."""
    headers = {"X-API-KEY": require_key(NAME, settings.api_key, VARIABLE)}
    where = {"gl": settings.gl, "hl": settings.hl}
    body = {"q": query, "num": settings.max_results, **{key: value for key, value in where.items() if value}}
    return WebRequest(f"{settings.base_url.rstrip('/')}{path}", "POST", headers, json=body)


web_search_tool = make_search_tool(NAME, SerperSettings, search)
image_search_tool = make_image_tool(NAME, SerperSettings, search_images)
