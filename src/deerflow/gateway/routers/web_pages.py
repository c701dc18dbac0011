"""/threads/{thread_id}/web-pages: the pages that agents have read, as they were then"""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from deerflow.domain.pages import PageSnapshot
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.files import HEADERS

router = APIRouter(prefix="/threads/{thread_id}/web-pages", tags=["threads"])


class WebPage(BaseModel):
    """A page as it was when an agent read it; `problem` says why it could not be read, if so."""

    snapshot_id: str
    asked_url: str
    url: str
    title: str
    content_type: str
    text_hash: str | None
    chars: int
    problem: str | None
    fetched_at: datetime
    is_kept: bool

    @classmethod
    def of(cls, page: PageSnapshot) -> "WebPage":
        return cls.model_validate(page, from_attributes=True)


class WebPages(BaseModel):
    """Pages of a thread, oldest first, and how much of the web it holds in all."""

    pages: list[WebPage]
    total: int
    total_chars: int
    max_pages: int
    max_chars: int


class WebPageText(WebPage):
    """A page with its text as Markdown."""

    text: str


@router.get("", summary="Pages that were read in a thread")
async def list_web_pages(
    thread_id: str,
    harness: TheHarness,
    who: Who,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> WebPages:
    """Every page an agent has read, and every one it could not read, oldest first."""
    kept = harness.resources.web_pages
    found = await kept.list(thread_id, who, limit, offset)
    held = await kept.held(thread_id, who)
    return WebPages(
        pages=[WebPage.of(page) for page in found],
        total=held.pages,
        total_chars=held.chars,
        max_pages=kept.limits.pages,
        max_chars=kept.limits.chars,
    )


@router.get("/at", response_class=PlainTextResponse, summary="The text of the page at an address, as it was read")
async def get_web_page_at(
    thread_id: str,
    harness: TheHarness,
    who: Who,
    url: Annotated[str, Query(min_length=1, max_length=4000, examples=["https://example.org/birds"])],
) -> PlainTextResponse:
    """The text of the page that a citation leads to, as it was when an agent read it last."""
    _, text = await harness.resources.web_pages.at(thread_id, who, url)
    return PlainTextResponse(text, headers=HEADERS)


@router.get("/{snapshot_id}", summary="A page as it was read")
async def get_web_page(thread_id: str, snapshot_id: str, harness: TheHarness, who: Who) -> WebPageText:
    """A page with its text, as it was when an agent read it."""
    page, text = await harness.resources.web_pages.get(thread_id, who, snapshot_id)
    return WebPageText(**WebPage.of(page).model_dump(), text=text)


@router.get("/{snapshot_id}/text", response_class=PlainTextResponse, summary="The text of a page as it was read")
async def get_web_page_text(thread_id: str, snapshot_id: str, harness: TheHarness, who: Who) -> PlainTextResponse:
    """The text alone, for reading; it never acts as a page."""
    page, text = await harness.resources.web_pages.get(thread_id, who, snapshot_id)
    return PlainTextResponse(page.problem or text, headers=HEADERS)
