"""Files of threads, for tests that fetch them."""

from pathlib import Path
from urllib.parse import quote

import httpx

from deerflow.domain.principal import LOCAL_USER, Principal
from deerflow.harness import Harness

OUTPUTS = "/mnt/user-data/outputs"


async def put(harness: Harness, name: str, content: bytes, thread_id: str = "t1", who: Principal = LOCAL_USER) -> str:
    """Write a file of a thread; its address."""
    thread = await harness.threads.create(who, thread_id, {}, may_exist=True)
    await harness.files_of(thread).write(f"{OUTPUTS}/{name}", content)
    return address(f"{OUTPUTS}/{name}", thread_id)


def address(path: str, thread_id: str = "t1") -> str:
    """Where a file is had."""
    return f"/api/threads/{thread_id}/artifacts{quote(path)}"


async def settle(http: httpx.AsyncClient, url: str) -> None:
    """Wait until the clock of the file system has moved on, so that a change would show."""
    for _ in range(10_000):
        if not (await http.head(url)).headers["etag"].startswith("W/"):
            return
    raise AssertionError("the clock does not move")


def find(top: Path, pattern: str) -> list[Path]:
    """What is called so anywhere below a folder of this machine."""
    return sorted(top.rglob(pattern))
