"""Share links: /threads/{thread_id}/shares for the owner, /shared/{token} for readers.

Readers are not authenticated: the link grants read access to the messages and the presented files. Routes of
`shared_router` therefore take no `CurrentUser` and only read.
"""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import Response

from deerflow.domain import threads as domain
from deerflow.domain.errors import FileProblem
from deerflow.domain.identity import Principal
from deerflow.gateway.dependencies import HarnessDep, ThreadOwner
from deerflow.gateway.examples import SHARE, TOKEN, with_examples
from deerflow.gateway.files import file_response
from deerflow.gateway.routers.threads.artifacts import FILE, PAGE, ArtifactPath, RequestConditions, preview_response
from deerflow.gateway.routers.threads.messages import format_cursor, parse_cursor
from deerflow.persistence.queries.audit import AuditEvent
from deerflow.services.audit import audited

router = APIRouter(prefix="/threads/{thread_id}/shares", tags=["sharing"])


class ShareThread(BaseModel):
    """Body of a request for a link."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"expires_in_days": 7}))

    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    """Default: the maximum of the server."""


class Share(BaseModel):
    """Share link without its secret, which cannot be retrieved again."""

    share_id: str
    thread_id: str
    created_at: datetime
    expires_at: datetime | None

    @classmethod
    def from_domain(cls, share: domain.ShareLink) -> "Share":
        return cls.model_validate(share, from_attributes=True)


class NewShare(Share):
    """New share link with its secret."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "share_id": SHARE,
                "thread_id": "example",
                "created_at": "2026-01-31T09:30:00Z",
                "expires_at": None,
                "token": TOKEN,
                "path": f"/share/{TOKEN}",
            }
        }
    )

    token: str
    path: str
    """Path of the public page."""


@router.post("", status_code=201, summary="Create a share link")
async def share_thread(thread_id: str, body: ShareThread, harness: HarnessDep, user: ThreadOwner) -> NewShare:
    """Create a public link to the messages up to now; its secret is returned only once."""
    event = AuditEvent(
        "configuration.share", user.user_id, user.user_id, details={"action": "share_thread", "thread": thread_id}
    )
    made = await audited(harness.resources.sharing, event).create(thread_id, user, body.expires_in_days)
    shown = Share.from_domain(made.share).model_dump()
    return NewShare(**shown, token=made.token, path=f"/share/{made.token}")


@router.get("", summary="List share links")
async def list_shares(thread_id: str, harness: HarnessDep, user: ThreadOwner) -> list[Share]:
    """List the share links of a thread, newest first, expired links included."""
    return [Share.from_domain(share) for share in await harness.resources.sharing.list(thread_id, user)]


@router.delete("/{share_id}", status_code=204, summary="Revoke a share link")
async def revoke_share(thread_id: str, share_id: str, harness: HarnessDep, user: ThreadOwner) -> None:
    """Revoke a share link; also possible while sharing is disabled."""
    details = {"action": "revoke_share", "thread": thread_id, "share": share_id}
    event = AuditEvent("configuration.share", user.user_id, user.user_id, details=details)
    await audited(harness.resources.sharing, event).revoke(thread_id, share_id, user)


shared_router = APIRouter(prefix="/shared/{token}", tags=["sharing"])

PRIVATE = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex, nofollow"}
MESSAGES: dict[str, JsonValue] = {
    "data": [{"message": {"type": "human", "id": "5f0c", "content": "Hello"}, "created_at": "2026-01-31T09:30:00Z"}],
    "before": None,
}
Token = Annotated[str, Path(max_length=200, openapi_examples={"link": {"summary": "A secret", "value": TOKEN}})]


class SharedThread(BaseModel):
    """Shared thread as of `shared_at`."""

    title: str | None
    shared_at: datetime
    expires_at: datetime | None
    artifacts: list[str]
    """Files presented by the agent."""


class SharedMessage(BaseModel):
    """Message without private fields."""

    message: dict[str, object]
    created_at: datetime


class SharedMessages(BaseModel):
    """Messages in order; page back with `before` until it is null."""

    model_config = ConfigDict(json_schema_extra={"example": MESSAGES})

    data: list[SharedMessage]
    before: str | None


@shared_router.get("", summary="Get a shared thread")
async def open_shared(token: Token, harness: HarnessDep, response: Response) -> SharedThread:
    """Get a shared thread; 404 if the link was revoked, has expired, or sharing is disabled."""
    shared = await harness.resources.sharing.open(token)
    response.headers.update(PRIVATE)
    return SharedThread(
        title=shared.title,
        shared_at=shared.share.created_at,
        expires_at=shared.share.expires_at,
        artifacts=list(shared.artifacts),
    )


@shared_router.get("/messages", summary="List the messages of a shared thread")
async def read_shared_messages(
    token: Token,
    harness: HarnessDep,
    response: Response,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[str | None, Query(description="Cursor of the previous page, from `before`.")] = None,
) -> SharedMessages:
    """List the latest messages of a shared thread: those of the user, the agent and the tools."""
    page = await harness.resources.sharing.read_page(token, parse_cursor(before), limit)
    response.headers.update(PRIVATE)
    return SharedMessages(
        data=[SharedMessage(message=message, created_at=at) for message, at in page.messages],
        before=format_cursor(page.earlier) if page.earlier else None,
    )


@shared_router.get(
    "/artifacts/{path:file}", response_class=Response, responses=FILE, summary="Get a file of a shared thread"
)
async def get_shared_artifact(
    token: Token, path: ArtifactPath, harness: HarnessDep, wanted: RequestConditions, download: bool = False
) -> Response:
    """Get the current content of a presented file; only images and text are shown inline."""
    share = await harness.resources.sharing.find_artifact(token, f"/{path}")
    file = await harness.artifacts.open(share.thread_id, Principal(share.owner), f"/{path}")
    answer = await file_response(file, wanted, download=download)
    answer.headers.update(PRIVATE)
    return answer


@shared_router.get(
    "/previews/{path:file}", response_class=Response, responses=PAGE, summary="Preview a web page of a shared thread"
)
async def preview_shared(
    token: Token,
    path: ArtifactPath,
    harness: HarnessDep,
    sec_fetch_dest: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Get a presented web page or SVG for a frame: without an origin and without network access."""
    # In a window of its own, its scripts could read the link in the address and send it to another site.
    if sec_fetch_dest == "document":
        raise FileProblem("previews of shared threads are available only in a frame of the shared page")
    share = await harness.resources.sharing.find_artifact(token, f"/{path}")
    thread = await harness.threads.get(share.thread_id, Principal(share.owner))
    return await preview_response(harness, thread, path)
