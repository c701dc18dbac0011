"""Messages: /threads/{thread_id}/messages/page, /threads/{thread_id}/export and /search."""

from datetime import datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import StreamingResponse

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.threads import SearchRole
from deerflow.gateway.dependencies import CurrentAdmin, CurrentUser, HarnessDep, ThreadReader
from deerflow.persistence.queries.audit import AuditEvent
from deerflow.persistence.queries.messages import MessageCursor, StoredMessage
from deerflow.services.export import ExportFormat

router = APIRouter(tags=["threads"])

EXAMPLE: dict[str, JsonValue] = {
    "data": [
        {
            "message": {"type": "human", "id": "5f0c", "content": "Hello"},
            "run_id": "01f0c1d2e3f4",
            "run_started_at": "2026-01-31T09:29:59Z",
            "created_at": "2026-01-31T09:30:00Z",
            "thought_ms": None,
            "took_ms": None,
            "left_behind_by": None,
        }
    ],
    "values": {"title": "A greeting"},
    "heard": {"run_id": "01f0c1d2e3f4", "seq": 7},
    "has_more": False,
    "before": None,
}


class SaidMessage(BaseModel):
    """Message with its run and time; `left_behind_by` is the run that branched off before it.

    `took_ms` is the duration of the tool call that it is the result of, if that or another of the step took a second.
    """

    message: dict[str, object]
    run_id: str
    run_started_at: datetime
    created_at: datetime
    thought_ms: int | None
    took_ms: int | None
    left_behind_by: str | None

    @classmethod
    def from_domain(cls, said: StoredMessage) -> "SaidMessage":
        return cls(
            message=dict(said.fields),
            run_id=said.run_id,
            run_started_at=said.run_started_at,
            created_at=said.created_at,
            thought_ms=said.thought_ms,
            took_ms=said.took_ms,
            left_behind_by=said.left_behind_by,
        )


class Heard(BaseModel):
    """Event of a run."""

    run_id: str
    seq: int


class MessagePage(BaseModel):
    """Messages in order. The last page also contains the other thread values (`values`) and, while a run is active, the
    event to continue from (`heard`).
    """

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    data: list[SaidMessage]
    values: dict[str, object] | None
    heard: Heard | None
    has_more: bool
    before: str | None


@router.get("/threads/{thread_id}/messages/page")
async def read_messages(
    thread_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[str | None, Query(description="Cursor of the previous page, from `before`.")] = None,
) -> MessagePage:
    """List the latest messages of a thread with times; page back with `before={before}` while `has_more`."""
    page = await harness.threads.messages_page(thread_id, user, parse_cursor(before), limit)
    newest = page.newest if before is None else None
    return MessagePage(
        data=[SaidMessage.from_domain(said) for said in page.messages],
        values=await harness.threads.values(thread_id, user) if before is None else None,
        heard=Heard(run_id=newest.run_id, seq=newest.seq) if newest else None,
        has_more=page.earlier is not None,
        before=format_cursor(page.earlier) if page.earlier else None,
    )


admin_router = APIRouter(prefix="/admin", tags=["audit"])


@admin_router.get("/threads/{thread_id}/messages", summary="Read the thread of another person")
async def read_messages_as_admin(
    thread_id: str,
    harness: HarnessDep,
    admin: CurrentAdmin,
    reason: Annotated[str, Query(min_length=3, max_length=200, examples=["support request 17"])],
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[str | None, Query(description="Cursor of the previous page, from `before`.")] = None,
) -> MessagePage:
    """List the latest messages of a thread of any person. The audit log gets an entry first, and the person sees it."""
    owner = await harness.threads.find_owner(thread_id)
    cursor = parse_cursor(before)
    details = {"thread": thread_id, "reason": reason}
    await harness.resources.audit.record(AuditEvent("data.thread_read", admin.user_id, owner.user_id, details=details))
    page = await harness.threads.messages_page(thread_id, owner, cursor, limit)
    return MessagePage(
        data=[SaidMessage.from_domain(said) for said in page.messages],
        values=None,
        heard=None,
        has_more=page.earlier is not None,
        before=format_cursor(page.earlier) if page.earlier else None,
    )


def format_cursor(place: MessageCursor) -> str:
    """Return a cursor as text."""
    return f"{place.run_id}.{place.seq}.{place.index}"


def parse_cursor(value: str | None) -> MessageCursor | None:
    """Parse a cursor.

    Raises:
        InvalidRequest: the cursor is invalid.
    """
    if value is None:
        return None
    run_id, *numbers = value.rsplit(".", 2)
    if len(numbers) != 2 or not all(number.isdecimal() and len(number) < 10 for number in numbers):
        raise InvalidRequest(f"invalid cursor {value!r}; use `before` of a page")
    return MessageCursor(run_id, *map(int, numbers))


export_router = APIRouter(tags=["threads"])

EXPORT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cache-Control": "no-store",
}
EXPORT_CONTENT = {
    "text/markdown": {"example": "# Plan my trip\n\n## You\n\nA week in Rome\n\n## DeerFlow\n\nGladly.\n"},
    "application/json": {"example": {"format": "deerflow.thread", "version": 1, "messages": [], "runs": []}},
}


@export_router.get(
    "/threads/{thread_id}/export",
    summary="Export a thread",
    response_class=StreamingResponse,
    responses={200: {"description": "The thread, as an attachment.", "content": EXPORT_CONTENT}},
)
async def export_thread(
    thread_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    form: Annotated[ExportFormat, Query(alias="format", description="Output format.")] = "markdown",
) -> StreamingResponse:
    """Export a thread as Markdown, or as JSON with all messages, runs and files."""
    export = await harness.resources.exporter.export(thread_id, user, form)
    disposition = f"attachment; filename*=UTF-8''{quote(export.name, safe='')}"
    headers = {**EXPORT_HEADERS, "Content-Disposition": disposition}
    return StreamingResponse(export.content, media_type=export.media_type, headers=headers)


search_router = APIRouter(tags=["search"])


class Hit(BaseModel):
    """Search hit. A hit in a title has no message."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "thread_id": "trip",
                "title": "Plan my trip",
                "run_id": "6f1c0a52-7b0e-4f5e-9a53-0d1b7c9e2f10",
                "message_id": "m1",
                "role": "human",
                "snippet": "A week in Rome, by train",
                "highlights": [[10, 14]],
                "created_at": "2026-05-01T09:30:00Z",
            }
        }
    )

    thread_id: str
    title: str | None
    run_id: str | None
    message_id: str | None
    role: SearchRole
    snippet: str
    highlights: list[tuple[int, int]] = Field(description="Positions of the words in `snippet`, in characters.")
    created_at: datetime


class Hits(BaseModel):
    """Page of hits, best match first; continue with `cursor={next_cursor}` unless it is null."""

    hits: list[Hit]
    next_cursor: str | None


class SearchRequest(BaseModel):
    """Body of a search."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"q": "rome train", "limit": 10}})

    q: Annotated[str, Field(min_length=1, max_length=500)]
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Annotated[str | None, Field(max_length=32)] = None


@search_router.get("/search", summary="Search messages")
async def search(
    harness: HarnessDep,
    user: CurrentUser,
    q: Annotated[str, Query(min_length=1, max_length=500, openapi_examples={"words": {"value": "rome train"}})],
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(max_length=32)] = None,
) -> Hits:
    """Search messages and titles of all threads that contain all words of `q`, in any script."""
    page = await harness.resources.search.search(user, q, limit, cursor)
    hits = [Hit.model_validate(hit, from_attributes=True) for hit in page.hits]
    return Hits(hits=hits, next_cursor=page.next_cursor)


@search_router.post("/search", summary="Search messages with a body")
async def search_by_body(body: Annotated[SearchRequest, Body()], harness: HarnessDep, user: CurrentUser) -> Hits:
    """Search as with GET, with the words in the body instead of the URL."""
    return await search(harness, user, body.q, body.limit, body.cursor)
