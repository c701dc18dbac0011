"""`web_search` and `image_search` with DuckDuckGo, which has HTML pages but no API."""

from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, Field

from deerflow.community.web.http import HttpClient, OptionalText, WebRateLimited, WebRequest, call_api, check_status
from deerflow.community.web.reader import PageReader
from deerflow.community.web.results import ImageHit, WebSearchHit
from deerflow.community.web.tool import SearchSettings, make_image_tool, make_search_tool

NAME = "duckduckgo"
HEADERS = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
    "Accept-Language": "en-US,en;q=0.8",
}
SAFETY = {"strict": "1", "moderate": "-1", "off": "-2"}
IMAGE_SAFETY = {"strict": "1", "moderate": "1", "off": "-1"}
WITH_CLASS = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"
ROW = f"//div[{WITH_CLASS.format('result')} and not({WITH_CLASS.format('result--ad')})]"
FIELDS = {
    "title": f".//a[{WITH_CLASS.format('result__a')}]",
    "url": f".//a[{WITH_CLASS.format('result__a')}]/@href",
    "snippet": f".//*[{WITH_CLASS.format('result__snippet')}]",
}
CHALLENGE_MARKS = (b"anomaly-modal", b"anomaly.js", b"challenge-form")
"""Markers of the page with a bot challenge."""
TOKEN_CHARS = frozenset(b"0123456789-")
MAX_TOKEN_CHARS = 100


class DuckDuckGoSettings(SearchSettings):
    """Settings of DuckDuckGo."""

    region: str = Field(default="wt-wt", description="For example de-de; wt-wt is everywhere.")
    safesearch: Literal["strict", "moderate", "off"] = "moderate"
    base_url: str = "https://html.duckduckgo.com"


class DuckDuckGoImageSettings(DuckDuckGoSettings):
    """Settings of DuckDuckGo for images."""

    base_url: str = "https://duckduckgo.com"


class DuckDuckGoImage(BaseModel):
    """An image and the page it is on."""

    title: OptionalText = ""
    url: OptionalText = ""
    image: OptionalText = ""
    thumbnail: str | None = None
    width: int | None = None
    height: int | None = None


class DuckDuckGoImageResponse(BaseModel):
    """Response of an image search."""

    results: list[DuckDuckGoImage] = Field(default_factory=list)


async def search(query: str, settings: DuckDuckGoSettings, http: HttpClient) -> Sequence[WebSearchHit]:
    """Return pages for a query."""
    form = {"q": query, "kl": settings.region, "kp": SAFETY[settings.safesearch]}
    page = await fetch_page(http, WebRequest(f"{settings.base_url.rstrip('/')}/html/", "POST", HEADERS, form=form))
    hits = [to_hit(row) for row in await PageReader().rows(page, ROW, FIELDS)]
    return [hit for hit in hits if hit.title and hit.url]


async def search_images(query: str, settings: DuckDuckGoImageSettings, http: HttpClient) -> Sequence[ImageHit]:
    """Return images for a query; a first page contains the token that the image list needs."""
    base = settings.base_url.rstrip("/")
    page = await fetch_page(
        http, WebRequest(f"{base}/", headers=HEADERS, params={"q": query, "iax": "images", "ia": "images"})
    )
    params = {
        **{"q": query, "o": "json", "l": settings.region, "vqd": extract_token(page)},
        "p": IMAGE_SAFETY[settings.safesearch],
    }
    request = WebRequest(f"{base}/i.js", headers={**HEADERS, "Referer": f"{base}/"}, params=params)
    response = await call_api(http, NAME, request, DuckDuckGoImageResponse)
    return [
        ImageHit(found.title, found.url, found.image, found.thumbnail, found.width, found.height)
        for found in response.results
    ]


async def fetch_page(http: HttpClient, request: WebRequest) -> bytes:
    """Return an HTML page.

    Raises:
        RateLimited: DuckDuckGo answers with a bot challenge.
    """
    response = await http.send(request)
    if response.status in (202, 403) or any(mark in response.body for mark in CHALLENGE_MARKS):
        raise WebRateLimited(
            f"{NAME} has had too many requests from this machine and shows a bot challenge; try again in some minutes, "
            "or configure a search provider with a key"
        )
    check_status(NAME, response)
    return response.body


def to_hit(row: Mapping[str, str]) -> WebSearchHit:
    """Return a hit; its URL is inside the redirect URL of DuckDuckGo."""
    link = urlsplit(row["url"])
    target = parse_qs(link.query).get("uddg", [row["url"]])[0] if link.path == "/l/" else row["url"]
    return WebSearchHit(row["title"].strip(), target, row["snippet"].strip())


def extract_token(page: bytes) -> str:
    """Return the token of a query.

    Raises:
        RateLimited: There is none.
    """
    after = page.partition(b"vqd=")[2].lstrip(b"\"'")[:MAX_TOKEN_CHARS]
    length = next((place for place, char in enumerate(after) if char not in TOKEN_CHARS), len(after))
    if not length:
        raise WebRateLimited(f"{NAME} returns no images at the moment; try again later, or another source")
    return after[:length].decode("ascii")


web_search_tool = make_search_tool(NAME, DuckDuckGoSettings, search)
image_search_tool = make_image_tool(NAME, DuckDuckGoImageSettings, search_images)
