"""/search: what was said in any thread"""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain.search import SaidBy
from deerflow.gateway.dependencies import TheHarness, Who

router = APIRouter(tags=["search"])


class Hit(BaseModel):
    """A place where the words are. A hit in a title has no message."""

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
    role: SaidBy
    snippet: str
    highlights: list[tuple[int, int]] = Field(description="Where in `snippet` the words are, counted in characters.")
    created_at: datetime


class Hits(BaseModel):
    """A page of hits, the best first; go on with `cursor={next_cursor}` unless that is null."""

    hits: list[Hit]
    next_cursor: str | None


class SearchRequest(BaseModel):
    """Body of a search."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"q": "rome train", "limit": 10}})

    q: Annotated[str, Field(min_length=1, max_length=500)]
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Annotated[str | None, Field(max_length=32)] = None


@router.get("/search", summary="Find what was said")
async def search(
    harness: TheHarness,
    who: Who,
    q: Annotated[str, Query(min_length=1, max_length=500, openapi_examples={"words": {"value": "rome train"}})],
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(max_length=32)] = None,
) -> Hits:
    """Messages and titles of all threads that contain all words of `q`, in any script; signs have no meaning."""
    page = await harness.resources.search.find(who, q, limit, cursor)
    hits = [Hit.model_validate(hit, from_attributes=True) for hit in page.hits]
    return Hits(hits=hits, next_cursor=page.next_cursor)


@router.post("/search", summary="Find what was said, by a body")
async def search_by_body(body: Annotated[SearchRequest, Body()], harness: TheHarness, who: Who) -> Hits:
    """The same for words that nobody wants in the address of a request."""
    return await search(harness, who, body.q, body.limit, body.cursor)
