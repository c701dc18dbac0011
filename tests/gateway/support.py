"""Files of threads, bodies of requests and servers, for tests of the gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.harness import Harness, open_harness
from tests.gateway.reference.parrot import CONFIG
from tests.support import browse

OUTPUTS = "/mnt/user-data/outputs"


async def put_file(
    harness: Harness, name: str, content: bytes, thread_id: str = "t1", who: Principal = LOCAL_USER
) -> str:
    """Write a file of a thread and return its URL."""
    thread = await harness.threads.create(who, thread_id, {}, may_exist=True)
    await harness.files_of(thread).write(f"{OUTPUTS}/{name}", content)
    return get_artifact_url(f"{OUTPUTS}/{name}", thread_id)


def get_artifact_url(path: str, thread_id: str = "t1") -> str:
    """Return the URL of a file."""
    return f"/api/threads/{thread_id}/artifacts{quote(path)}"


async def wait_for_strong_etag(http: httpx.AsyncClient, url: str) -> None:
    """Wait until the clock of the file system has advanced, so that changes are detected."""
    for _ in range(10_000):
        if not (await http.head(url)).headers["etag"].startswith("W/"):
            return
    raise AssertionError("the clock does not move")


def find_files(top: Path, pattern: str) -> list[Path]:
    """Return all paths below a folder that match a pattern."""
    return sorted(top.rglob(pattern))


def assert_harmless(response: httpx.Response) -> None:
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert response.headers["cache-control"] == "no-cache"


@asynccontextmanager
async def open_langgraph_api(home: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of this server at the LangGraph prefix."""
    async with open_parrot_harness(home) as harness, serve_langgraph_api(harness) as http:
        yield http


def open_parrot_harness(home: Path) -> Any:
    return open_harness(open_source(directory=home, environment={}, overrides=CONFIG))


@asynccontextmanager
async def serve_langgraph_api(harness: Harness) -> AsyncIterator[httpx.AsyncClient]:
    async with browse(harness) as http:
        http.base_url = http.base_url.join("/api/langgraph")
        yield http


def build_run_body(text: str, **more: Any) -> dict[str, Any]:
    return {"input": {"messages": [{"type": "human", "content": text}]}, **more}
