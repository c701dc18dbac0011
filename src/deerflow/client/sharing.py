"""Links under which others may read a thread."""

from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.sharing import Share

AT_ONCE = 100


async def share_thread(session: Session, thread_id: str, expires_in_days: int | None = None) -> dict[str, Any]:
    """Make a link under which anybody reads what was said until now; its `token` is told this once.

    Raises:
        NotFound: there is no such thread.
        Conflict: sharing is switched off.
    """
    made = await session.harness.resources.sharing.share(thread_id, LOCAL_USER, expires_in_days)
    return {**show(made.share), "token": made.token, "path": f"/share/{made.token}"}


async def list_shares(session: Session, thread_id: str) -> list[dict[str, Any]]:
    """The links to a thread, newest first, also those that have ended.

    Raises:
        NotFound: there is no such thread.
    """
    return [show(share) for share in await session.harness.resources.sharing.list(thread_id, LOCAL_USER)]


async def revoke_share(session: Session, thread_id: str, share_id: str) -> None:
    """Have a link lead nowhere from now on.

    Raises:
        NotFound: there is no such link.
    """
    await session.harness.resources.sharing.revoke(thread_id, share_id, LOCAL_USER)


async def read_shared(session: Session, token: str) -> dict[str, Any]:
    """What a link leads to: `title`, `artifacts` and all `messages`, as a reader without rights sees them.

    Raises:
        NotFound: it leads nowhere, or no longer.
    """
    sharing = session.harness.resources.sharing
    shared = await sharing.open(token)
    page = await sharing.page(token, None, AT_ONCE)
    pages = [page]
    while page.earlier is not None:
        page = await sharing.page(token, page.earlier, AT_ONCE)
        pages.append(page)
    said = [each for part in reversed(pages) for each in part.messages]
    return {
        "title": shared.title,
        "shared_at": to_jsonable_python(shared.share.created_at),
        "expires_at": to_jsonable_python(shared.share.expires_at),
        "artifacts": list(shared.artifacts),
        "messages": [{"message": message, "created_at": to_jsonable_python(at)} for message, at in said],
    }


def show(share: Share) -> dict[str, Any]:
    """A link in the shape of the HTTP API."""
    return {
        "share_id": share.share_id,
        "thread_id": share.thread_id,
        "created_at": to_jsonable_python(share.created_at),
        "expires_at": to_jsonable_python(share.expires_at),
    }
