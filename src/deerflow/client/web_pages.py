"""Pages that agents have read."""

from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.pages import PageSnapshot
from deerflow.domain.principal import LOCAL_USER


async def list_web_pages(session: Session, thread_id: str, limit: int = 100, offset: int = 0) -> dict[str, Any]:
    """The pages that were read in a thread, oldest first, and how much of the web it holds in all.

    Raises:
        NotFound: there is no such thread.
    """
    kept = session.harness.resources.web_pages
    found = await kept.list(thread_id, LOCAL_USER, limit, offset)
    held = await kept.held(thread_id, LOCAL_USER)
    return {
        "pages": [show(page) for page in found],
        "total": held.pages,
        "total_chars": held.chars,
        "max_pages": kept.limits.pages,
        "max_chars": kept.limits.chars,
    }


async def get_web_page(session: Session, thread_id: str, snapshot_id: str) -> dict[str, Any]:
    """A page with its `text`, as it was when an agent read it.

    Raises:
        NotFound: no such page was read in this thread.
    """
    page, text = await session.harness.resources.web_pages.get(thread_id, LOCAL_USER, snapshot_id)
    return {**show(page), "text": text}


def show(page: PageSnapshot) -> dict[str, Any]:
    """A page in the shape of the HTTP API."""
    shown: dict[str, Any] = to_jsonable_python(asdict(page))
    return shown
