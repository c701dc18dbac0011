"""Helpers for tests of files of threads."""

from pathlib import Path
from urllib.parse import quote

import httpx

from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.harness import Harness

OUTPUTS = "/mnt/user-data/outputs"


async def put(harness: Harness, name: str, content: bytes, thread_id: str = "t1", who: Principal = LOCAL_USER) -> str:
    """Write a file of a thread and return its URL."""
    thread = await harness.threads.create(who, thread_id, {}, may_exist=True)
    await harness.files_of(thread).write(f"{OUTPUTS}/{name}", content)
    return address(f"{OUTPUTS}/{name}", thread_id)


def address(path: str, thread_id: str = "t1") -> str:
    """Return the URL of a file."""
    return f"/api/threads/{thread_id}/artifacts{quote(path)}"


async def settle(http: httpx.AsyncClient, url: str) -> None:
    """Wait until the clock of the file system has advanced, so that changes are detected."""
    for _ in range(10_000):
        if not (await http.head(url)).headers["etag"].startswith("W/"):
            return
    raise AssertionError("the clock does not move")


def find(top: Path, pattern: str) -> list[Path]:
    """Return all paths below a folder that match a pattern."""
    return sorted(top.rglob(pattern))
