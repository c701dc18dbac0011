"""`web_search` and `image_search` with Brave."""

from collections.abc import Mapping, Sequence
from html import unescape

from pydantic import BaseModel, Field

from deerflow.community.web.http import HttpClient, OptionalText, WebRequest, call_api, require_key
from deerflow.community.web.results import ImageHit, WebSearchHit
from deerflow.community.web.tool import KeyedSettings, SearchSettings, make_image_tool, make_search_tool
from deerflow.config.sections.tools import WEB_KEY_VARIABLES

NAME = "brave"
VARIABLE = WEB_KEY_VARIABLES[NAME]


class BraveSettings(KeyedSettings, SearchSettings):
    """Settings of Brave."""

    base_url: str = "https://api.search.brave.com"
    country: str | None = Field(default=None, description="Two letters, for example DE.")
    search_lang: str | None = Field(default=None, description="A language, for example de.")


class BraveHit(BaseModel):
    """A page."""

    title: OptionalText = ""
    url: OptionalText = ""
    description: OptionalText = ""
    page_age: str | None = None


class BraveWeb(BaseModel):
    """The pages."""

    results: list[BraveHit] = Field(default_factory=list)


class BraveResponse(BaseModel):
    """Response of a search; without pages, `web` is missing."""

    web: BraveWeb = BraveWeb()


class BraveThumbnail(BaseModel):
    """Thumbnail of an image."""

    src: str | None = None


class BraveImageProperties(BaseModel):
    """Properties of an image."""

    url: OptionalText = ""
    width: int | None = None
    height: int | None = None


class BraveImage(BaseModel):
    """An image and the page it is on."""

    title: OptionalText = ""
    url: OptionalText = ""
    thumbnail: BraveThumbnail = BraveThumbnail()
    properties: BraveImageProperties = BraveImageProperties()


class BraveImageResponse(BaseModel):
    """Response of an image search."""

    results: list[BraveImage] = Field(default_factory=list)


async def search(query: str, settings: BraveSettings, http: HttpClient) -> Sequence[WebSearchHit]:
    """Return pages for a query."""
    more = {"text_decorations": "false"}  # no tags around the matching words
    response = await call_api(http, NAME, make_request(settings, "/res/v1/web/search", query, more), BraveResponse)
    return [
        WebSearchHit(unescape(found.title), found.url, unescape(found.description), found.page_age)
        for found in response.web.results
    ]


async def search_images(query: str, settings: BraveSettings, http: HttpClient) -> Sequence[ImageHit]:
    """Return images for a query."""
    response = await call_api(
        http, NAME, make_request(settings, "/res/v1/images/search", query, {}), BraveImageResponse
    )
    return [
        ImageHit(
            unescape(found.title),
            found.url,
            found.properties.url,
            found.thumbnail.src,
            found.properties.width,
            found.properties.height,
        )
        for found in response.results
    ]


def make_request(settings: BraveSettings, path: str, query: str, more: Mapping[str, str]) -> WebRequest:
    """Return a request with the API key."""
    headers = {"X-Subscription-Token": require_key(NAME, settings.api_key, VARIABLE), "Accept": "application/json"}
    where = {"country": settings.country, "search_lang": settings.search_lang}
    chosen = {key: value for key, value in where.items() if value}
    params: dict[str, str | int] = {"q": query, "count": settings.max_results, **more, **chosen}
    return WebRequest(f"{settings.base_url.rstrip('/')}{path}", headers=headers, params=params)


web_search_tool = make_search_tool(NAME, BraveSettings, search)
image_search_tool = make_image_tool(NAME, BraveSettings, search_images)
