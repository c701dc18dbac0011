"""Agents that read pages of this machine, and what is kept of them."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import insert

from deerflow.config.root import Config
from deerflow.domain.pages import ReadPage
from deerflow.domain.principal import LOCAL_USER
from deerflow.harness import Harness
from deerflow.persistence.tables import web_pages
from deerflow.runtime.pages import WebPages, snapshot_of

PAGE = ReadPage("https://a.example/", "https://a.example/home", "Home", "text/html", "A heron.")


def reading_tools(**settings: Any) -> list[dict[str, Any]]:
    (entry,) = [entry.model_dump() for entry in Config().tools if entry.name == "web_fetch"]
    return [{**entry, "allow_private_addresses": True, "respect_robots": False, **settings}]


async def fill(kept: WebPages, count: int) -> None:
    """Have a thread hold so many pages, at once."""
    told = asdict(snapshot_of(PAGE, ""))
    told.pop("is_kept")
    mine = {**told, "thread_id": "t", "owner": LOCAL_USER.user_id}
    rows = [{**mine, "snapshot_id": f"{number}"} for number in range(count)]
    await kept.database.write(lambda connection: connection.execute(insert(web_pages), rows))


async def pages_of(harness: Harness, thread: str = "t") -> list[dict[str, Any]]:
    """What is kept, without times, each with its text."""
    kept = harness.resources.web_pages
    found = []
    for page in await kept.list(thread, LOCAL_USER, 100, 0):
        shown, text = await kept.get(thread, LOCAL_USER, page.snapshot_id)
        assert shown == page
        found.append({"url": page.url, "asked": page.asked_url, "text": text, "problem": page.problem})
    return found
