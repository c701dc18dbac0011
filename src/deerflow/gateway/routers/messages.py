"""/threads/{thread_id}/messages/page"""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, JsonValue

from deerflow.domain.errors import InvalidRequest
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.persistence.said import Place, Said

router = APIRouter(tags=["threads"])

EXAMPLE: dict[str, JsonValue] = {
    "data": [
        {
            "message": {"type": "human", "id": "5f0c", "content": "Hello"},
            "run_id": "01f0c1d2e3f4",
            "created_at": "2026-01-31T09:30:00Z",
            "thought_ms": None,
            "left_behind_by": None,
        }
    ],
    "values": {"title": "A greeting"},
    "heard": {"run_id": "01f0c1d2e3f4", "seq": 7},
    "has_more": False,
    "before": None,
}


class SaidMessage(BaseModel):
    """A message, the run that told it last and when; `left_behind_by` is the run that went another way before it."""

    message: dict[str, object]
    run_id: str
    created_at: datetime
    thought_ms: int | None
    left_behind_by: str | None

    @classmethod
    def of(cls, said: Said) -> "SaidMessage":
        return cls(
            message=dict(said.fields),
            run_id=said.run_id,
            created_at=said.said_at,
            thought_ms=said.thought_ms,
            left_behind_by=said.left_behind_by,
        )


class Heard(BaseModel):
    """An event of a run."""

    run_id: str
    seq: int


class MessagePage(BaseModel):
    """Messages in their order. The last page also has what the thread holds besides them (`values`), and where to
    go on listening (`heard`) when a run is under way."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    data: list[SaidMessage]
    values: dict[str, object] | None
    heard: Heard | None
    has_more: bool
    before: str | None


@router.get("/threads/{thread_id}/messages/page")
async def read_messages(
    thread_id: str,
    harness: TheHarness,
    who: Who,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[str | None, Query(description="where an earlier page ends, as the later one says")] = None,
) -> MessagePage:
    """The last messages of a thread, with times: go back with `before={before}` while `has_more`."""
    page = await harness.threads.messages_page(thread_id, who, parse_place(before), limit)
    newest = page.newest if before is None else None
    return MessagePage(
        data=[SaidMessage.of(said) for said in page.messages],
        values=await harness.threads.values(thread_id, who) if before is None else None,
        heard=Heard(run_id=newest.run_id, seq=newest.seq) if newest else None,
        has_more=page.earlier is not None,
        before=show_place(page.earlier) if page.earlier else None,
    )


def show_place(place: Place) -> str:
    """A place as readers hand it back."""
    return f"{place.run_id}.{place.seq}.{place.index}"


def parse_place(value: str | None) -> Place | None:
    """The place a reader names.

    Raises:
        InvalidRequest: it is not one of ours.
    """
    if value is None:
        return None
    run_id, *numbers = value.rsplit(".", 2)
    if len(numbers) != 2 or not all(number.isdecimal() and len(number) < 10 for number in numbers):
        raise InvalidRequest(f"before is what an earlier page called so, not {value!r}")
    return Place(run_id, *map(int, numbers))
