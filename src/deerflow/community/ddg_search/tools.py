"""`web_search` and `image_search` by DuckDuckGo, which has pages for people and no program for others."""

from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, Field

from deerflow.community.web.api import Text, ask_api, check_status
from deerflow.community.web.http import Ask, Http
from deerflow.community.web.problems import RateLimited
from deerflow.community.web.reader import Reader
from deerflow.community.web.results import Hit, Picture
from deerflow.community.web.tool import SearchSettings, image_tool, search_tool

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
SUSPICIOUS = (b"anomaly-modal", b"anomaly.js", b"challenge-form")
"""What is on the page that asks whether a person is there."""
TOKEN_CHARS = frozenset(b"0123456789-")
MAX_TOKEN_CHARS = 100


class DuckDuckGoSettings(SearchSettings):
    """How DuckDuckGo searches."""

    region: str = Field(default="wt-wt", description="For instance de-de; wt-wt is everywhere.")
    safesearch: Literal["strict", "moderate", "off"] = "moderate"
    base_url: str = "https://html.duckduckgo.com"


class DuckDuckGoImageSettings(DuckDuckGoSettings):
    """How DuckDuckGo searches for images."""

    base_url: str = "https://duckduckgo.com"


class FoundImage(BaseModel):
    """An image, and the page it is on."""

    title: Text = ""
    url: Text = ""
    image: Text = ""
    thumbnail: str | None = None
    width: int | None = None
    height: int | None = None


class Images(BaseModel):
    """What a search for images answers."""

    results: list[FoundImage] = Field(default_factory=list)


async def search(query: str, settings: DuckDuckGoSettings, http: Http) -> Sequence[Hit]:
    """Pages for a query."""
    form = {"q": query, "kl": settings.region, "kp": SAFETY[settings.safesearch]}
    page = await ask_page(http, Ask(f"{settings.base_url.rstrip('/')}/html/", "POST", HEADERS, form=form))
    hits = [as_hit(row) for row in await Reader().rows(page, ROW, FIELDS)]
    return [hit for hit in hits if hit.title and hit.url]


async def search_images(query: str, settings: DuckDuckGoImageSettings, http: Http) -> Sequence[Picture]:
    """Images for a query: a page is asked for the token that the list of images wants to see."""
    base = settings.base_url.rstrip("/")
    page = await ask_page(http, Ask(f"{base}/", headers=HEADERS, params={"q": query, "iax": "images", "ia": "images"}))
    params = {
        **{"q": query, "o": "json", "l": settings.region, "vqd": token_in(page)},
        "p": IMAGE_SAFETY[settings.safesearch],
    }
    ask = Ask(f"{base}/i.js", headers={**HEADERS, "Referer": f"{base}/"}, params=params)
    answer = await ask_api(http, NAME, ask, Images)
    return [
        Picture(found.title, found.url, found.image, found.thumbnail, found.width, found.height)
        for found in answer.results
    ]


async def ask_page(http: Http, ask: Ask) -> bytes:
    """A page for people.

    Raises:
        RateLimited: DuckDuckGo wants to see a person.
    """
    reply = await http.send(ask)
    if reply.status in (202, 403) or any(mark in reply.body for mark in SUSPICIOUS):
        raise RateLimited(
            f"{NAME} has had too many requests from this machine and wants to see a person; try again in some minutes, "
            "or configure a search provider with a key"
        )
    check_status(NAME, reply)
    return reply.body


def as_hit(row: Mapping[str, str]) -> Hit:
    """A result; its address is in the one that would lead there by way of DuckDuckGo."""
    link = urlsplit(row["url"])
    target = parse_qs(link.query).get("uddg", [row["url"]])[0] if link.path == "/l/" else row["url"]
    return Hit(row["title"].strip(), target, row["snippet"].strip())


def token_in(page: bytes) -> str:
    """The token of a query.

    Raises:
        RateLimited: There is none.
    """
    after = page.partition(b"vqd=")[2].lstrip(b"\"'")[:MAX_TOKEN_CHARS]
    length = next((place for place, char in enumerate(after) if char not in TOKEN_CHARS), len(after))
    if not length:
        raise RateLimited(f"{NAME} gives no images at the moment; try again later, or another source")
    return after[:length].decode("ascii")


web_search_tool = search_tool(NAME, DuckDuckGoSettings, search)
image_search_tool = image_tool(NAME, DuckDuckGoImageSettings, search_images)
