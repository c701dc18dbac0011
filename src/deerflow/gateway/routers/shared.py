"""/shared/{token}: a thread for whoever has a link to it

Nobody is asked who they are: the link is all the right there is, and it is one to read what was said and the files that
were presented. So no route here takes `Who`, and none does more than read.
"""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from pydantic import BaseModel, ConfigDict, JsonValue
from starlette.responses import Response

from deerflow.domain.errors import FileProblem
from deerflow.domain.principal import Principal
from deerflow.gateway.dependencies import TheHarness
from deerflow.gateway.examples import TOKEN
from deerflow.gateway.files import file_response
from deerflow.gateway.routers.artifacts import FILE, Wanted, Where
from deerflow.gateway.routers.messages import parse_place, show_place
from deerflow.gateway.routers.previews import PAGE, preview_response

router = APIRouter(prefix="/shared/{token}", tags=["sharing"])

PRIVATE = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex, nofollow"}
MESSAGES: dict[str, JsonValue] = {
    "data": [{"message": {"type": "human", "id": "5f0c", "content": "Hello"}, "created_at": "2026-01-31T09:30:00Z"}],
    "before": None,
}
Token = Annotated[str, Path(max_length=200, openapi_examples={"link": {"summary": "A secret", "value": TOKEN}})]


class SharedThread(BaseModel):
    """A thread as somebody with a link sees it: as it was at `shared_at`."""

    title: str | None
    shared_at: datetime
    expires_at: datetime | None
    artifacts: list[str]
    """The files the agent has presented."""


class SharedMessage(BaseModel):
    """A message without what only its owner may see."""

    message: dict[str, object]
    created_at: datetime


class SharedMessages(BaseModel):
    """Messages in their order; go back with `before` until there is none."""

    model_config = ConfigDict(json_schema_extra={"example": MESSAGES})

    data: list[SharedMessage]
    before: str | None


@router.get("", summary="What a link leads to")
async def open_shared(token: Token, harness: TheHarness, response: Response) -> SharedThread:
    """What a link leads to; 404 when it was taken back, has ended, or sharing is switched off."""
    shared = await harness.resources.sharing.open(token)
    response.headers.update(PRIVATE)
    return SharedThread(
        title=shared.title,
        shared_at=shared.share.created_at,
        expires_at=shared.share.expires_at,
        artifacts=list(shared.artifacts),
    )


@router.get("/messages", summary="What was said under a link")
async def read_shared_messages(
    token: Token,
    harness: TheHarness,
    response: Response,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[str | None, Query(description="where an earlier page ends, as the later one says")] = None,
) -> SharedMessages:
    """The last messages under a link: what people and the agent said, and what tools did."""
    page = await harness.resources.sharing.page(token, parse_place(before), limit)
    response.headers.update(PRIVATE)
    return SharedMessages(
        data=[SharedMessage(message=message, created_at=at) for message, at in page.messages],
        before=show_place(page.earlier) if page.earlier else None,
    )


@router.get("/artifacts/{path:file}", response_class=Response, responses=FILE, summary="Get a file under a link")
async def get_shared_artifact(
    token: Token, path: Where, harness: TheHarness, wanted: Wanted, download: bool = False
) -> Response:
    """A file the agent has presented, as it is now; only pictures and text are shown in place."""
    share = await harness.resources.sharing.artifact(token, f"/{path}")
    file = await harness.artifacts.open(share.thread_id, Principal(share.owner), f"/{path}")
    answer = await file_response(file, wanted, download=download)
    answer.headers.update(PRIVATE)
    return answer


@router.get("/previews/{path:file}", response_class=Response, responses=PAGE, summary="Show a web page under a link")
async def preview_shared(
    token: Token,
    path: Where,
    harness: TheHarness,
    sec_fetch_dest: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """A page or drawing the agent has presented, for a frame: it has no origin and can reach nothing."""
    # In a window of its own its scripts could read the link in the address, and leave with it for another site.
    if sec_fetch_dest == "document":
        raise FileProblem("web pages under a link are shown in a frame of the page of that link, and nowhere else")
    share = await harness.resources.sharing.artifact(token, f"/{path}")
    thread = await harness.threads.get(share.thread_id, Principal(share.owner))
    return await preview_response(harness, thread, path)
