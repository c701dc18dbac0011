"""Shared helpers of the agent tests: an empty history, names of web tools and installing `langgraph dev`."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deerflow.domain.threads import HistoryMessage
from tests.support import dependencies, install_once, key_of

ROOT = Path(__file__).parents[2]
LANGGRAPH = dependencies()["pypi"]["langgraph_server"]
WEB_TOOLS = {
    "ddg_search": ("web_search", "image_search"),
    "tavily": ("web_search", "web_fetch"),
    "brave": ("web_search", "image_search"),
    "serper": ("web_search", "image_search"),
    "searxng": ("web_search",),
    "exa": ("web_search", "web_fetch"),
    "firecrawl": ("web_search", "web_fetch"),
    "jina_ai": ("web_fetch",),
    "web_fetch": ("web_fetch",),
}


class EmptyHistory:
    """History of a thread without messages."""

    async def search(self, query: str, limit: int) -> Sequence[HistoryMessage]:
        return []

    async def read_title(self) -> str | None:
        return None

    async def contains_url(self, url: str) -> bool:
        return False


async def output_until(process: asyncio.subprocess.Process, word: bytes) -> asyncio.StreamReader:
    """Read the output of a process up to the line with `word` and return the stream."""
    assert process.stdout is not None
    seen = b""
    async for line in process.stdout:
        seen += line
        if word in line:
            return process.stdout
    pytest.fail(f"the server ended at once:\n{seen.decode(errors='replace')}")


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def installed() -> Path:
    """Install `langgraph` and this project once per set of versions, and return the path of the program."""
    versions, uv = ROOT / "requirements.lock", ROOT / ".venv/bin/uv"
    key = key_of(*LANGGRAPH, sys.version, str(ROOT), versions.read_text())
    folder = install_once(
        f"langgraph-dev-{key}",
        lambda venv: [
            [uv, "venv", "-q", "--allow-existing", "--python", sys.executable, venv],
            [uv, "pip", "install", "-q", "--python", venv / "bin/python", "-c", versions, "-e", ROOT, *LANGGRAPH],
        ],
    )
    return folder / "bin/langgraph"
