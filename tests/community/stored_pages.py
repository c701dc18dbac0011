"""Agents that read local pages, and the stored pages."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import insert

from deerflow.config.root import Config
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.web_pages import FetchedPage
from deerflow.harness import Harness
from deerflow.persistence.tables import web_pages
from deerflow.services.artifacts import WebPageService, to_page_snapshot

PAGE = FetchedPage("https://a.example/", "https://a.example/home", "Home", "text/html", "A heron.")


def build_fetch_tools(**settings: Any) -> list[dict[str, Any]]:
    (entry,) = [entry.model_dump() for entry in Config().tools if entry.name == "web_fetch"]
    return [{**entry, "allow_private_addresses": True, "respect_robots": False, **settings}]


async def store_pages(kept: WebPageService, count: int) -> None:
    """Store `count` pages in a thread."""
    message = asdict(to_page_snapshot(PAGE, ""))
    message.pop("is_kept")
    row = {**message, "thread_id": "t", "owner": LOCAL_USER.user_id}
    rows = [{**row, "snapshot_id": f"{number}"} for number in range(count)]
    await kept.database.write(lambda connection: connection.execute(insert(web_pages), rows))


async def list_pages(harness: Harness, thread: str = "t") -> list[dict[str, Any]]:
    """Return the stored pages with their texts, without times."""
    kept = harness.resources.web_pages
    found = []
    for page in await kept.list(thread, LOCAL_USER, 100, 0):
        shown, text = await kept.get(thread, LOCAL_USER, page.snapshot_id)
        assert shown == page
        found.append({"url": page.url, "asked": page.asked_url, "text": text, "problem": page.problem})
    return found
