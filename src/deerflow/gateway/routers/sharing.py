"""/threads/{thread_id}/shares: links under which others may read a thread"""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain import sharing as words
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import SHARE, TOKEN, shown_as

router = APIRouter(prefix="/threads/{thread_id}/shares", tags=["sharing"])


class ShareThread(BaseModel):
    """Body of a request for a link."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"expires_in_days": 7}))

    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    """Without it, a link works for as long as the server allows."""


class Share(BaseModel):
    """A link to a thread: without its secret, which nobody can be told again."""

    share_id: str
    thread_id: str
    created_at: datetime
    expires_at: datetime | None

    @classmethod
    def of(cls, share: words.Share) -> "Share":
        return cls.model_validate(share, from_attributes=True)


class NewShare(Share):
    """A link that was just made."""

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
    """Where the page for readers is, below the address of this server."""


@router.post("", status_code=201, summary="Make a link to a thread")
async def share_thread(thread_id: str, body: ShareThread, harness: TheHarness, who: Who) -> NewShare:
    """Make a link under which anybody reads what was said until now; its secret is told this once."""
    made = await harness.resources.sharing.share(thread_id, who, body.expires_in_days)
    shown = Share.of(made.share).model_dump()
    return NewShare(**shown, token=made.token, path=f"/share/{made.token}")


@router.get("", summary="The links to a thread")
async def list_shares(thread_id: str, harness: TheHarness, who: Who) -> list[Share]:
    """The links to a thread, newest first, also those that have ended."""
    return [Share.of(share) for share in await harness.resources.sharing.list(thread_id, who)]


@router.delete("/{share_id}", status_code=204, summary="Take a link back")
async def revoke_share(thread_id: str, share_id: str, harness: TheHarness, who: Who) -> None:
    """Have a link lead nowhere from now on; also while sharing is switched off."""
    await harness.resources.sharing.revoke(thread_id, share_id, who)
