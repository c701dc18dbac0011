"""MCP servers, as far as they are at hand without one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from deerflow.config.imports import load_object
from deerflow.config.source import ConfigSource
from deerflow.mcp.lazy_servers import LazyServers
from deerflow.persistence.database import Database
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.sandbox.services import RunsServices

if TYPE_CHECKING:
    from deerflow.mcp.servers import McpServers

SERVERS = "deerflow.harness.mcp_servers:make_mcp_servers"


@asynccontextmanager
async def open_mcp(source: ConfigSource, sandboxes: SandboxProvider, database: Database) -> AsyncIterator[LazyServers]:
    """What knows the servers; their sessions end with it."""

    def load() -> Callable[[], "McpServers"]:
        return partial(cast(Callable[..., "McpServers"], load_object(SERVERS)), source, sandboxes, database)

    keep = sandboxes.keep_homes if isinstance(sandboxes, RunsServices) else None
    servers = LazyServers(lambda: source.refresh().extensions.mcp_servers, load, keep)
    try:
        await servers.open()
        yield servers
    finally:
        await servers.aclose()
