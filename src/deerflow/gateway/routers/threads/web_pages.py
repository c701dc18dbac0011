"""Snapshots of web pages that agents have read: /threads/{thread_id}/web-pages."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from deerflow.domain.web_pages import PageSnapshot
from deerflow.gateway.dependencies import CurrentUser, HarnessDep
from deerflow.gateway.files import HEADERS

router = APIRouter(prefix="/threads/{thread_id}/web-pages", tags=["threads"])


class WebPage(BaseModel):
    """Snapshot of a web page; `problem` says why it could not be read."""

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
    def from_domain(cls, page: PageSnapshot) -> "WebPage":
        return cls.model_validate(page, from_attributes=True)


class WebPages(BaseModel):
    """Web pages of a thread, oldest first, with its totals and limits."""

    pages: list[WebPage]
    total: int
    total_chars: int
    max_pages: int
    max_chars: int


class WebPageText(WebPage):
    """Web page with its text as Markdown."""

    text: str


@router.get("", summary="List the web pages read in a thread")
async def list_web_pages(
    thread_id: str,
    harness: HarnessDep,
    user: CurrentUser,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> WebPages:
    """List all web pages that agents have read or failed to read, oldest first."""
    kept = harness.resources.web_pages
    found = await kept.list(thread_id, user, limit, offset)
    held = await kept.get_totals(thread_id, user)
    return WebPages(
        pages=[WebPage.from_domain(page) for page in found],
        total=held.pages,
        total_chars=held.chars,
        max_pages=kept.limits.pages,
        max_chars=kept.limits.chars,
    )


@router.get("/at", response_class=PlainTextResponse, summary="Get the text of a web page by URL")
async def get_web_page_at(
    thread_id: str,
    harness: HarnessDep,
    user: CurrentUser,
    url: Annotated[str, Query(min_length=1, max_length=4000, examples=["https://example.org/birds"])],
) -> PlainTextResponse:
    """Get the text of a cited page, as of the last time an agent read it."""
    _, text = await harness.resources.web_pages.get_by_url(thread_id, user, url)
    return PlainTextResponse(text, headers=HEADERS)


@router.get("/{snapshot_id}", summary="Get a web page")
async def get_web_page(thread_id: str, snapshot_id: str, harness: HarnessDep, user: CurrentUser) -> WebPageText:
    """Get a web page with its text, as of the time an agent read it."""
    page, text = await harness.resources.web_pages.get(thread_id, user, snapshot_id)
    return WebPageText(**WebPage.from_domain(page).model_dump(), text=text)


@router.get("/{snapshot_id}/text", response_class=PlainTextResponse, summary="Get the text of a web page")
async def get_web_page_text(
    thread_id: str, snapshot_id: str, harness: HarnessDep, user: CurrentUser
) -> PlainTextResponse:
    """Get the text as plain text."""
    page, text = await harness.resources.web_pages.get(thread_id, user, snapshot_id)
    return PlainTextResponse(page.problem or text, headers=HEADERS)
