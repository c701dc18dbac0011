"""MCP servers: who starts them, and where what is known of them is kept."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from deerflow.config.source import ConfigSource
from deerflow.domain.errors import SandboxError
from deerflow.mcp.auth import NoTokens, TokenSource
from deerflow.mcp.catalog import McpCatalog
from deerflow.mcp.pins import Pins
from deerflow.mcp.sessions import SessionKit, SessionPool
from deerflow.mcp.shelf import ListingShelf
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.sandbox.services import RunsServices, Service, ServiceOrder


@asynccontextmanager
async def open_mcp(
    source: ConfigSource, sandboxes: SandboxProvider, tokens: TokenSource | None = None, pins: Pins | None = None
) -> AsyncIterator[McpCatalog]:
    """What knows the servers; their sessions end with it."""
    sessions = SessionPool(SessionKit(partial(start_service, sandboxes), tokens or NoTokens()))
    catalog = McpCatalog(
        lambda: source.refresh().extensions.mcp_servers,
        sessions,
        ListingShelf(source.current.home / "mcp"),
        pins=pins,
        tokens=tokens,
        hide=source.hide,
    )
    try:
        yield catalog
    finally:
        await catalog.aclose()


async def start_service(sandboxes: SandboxProvider, order: ServiceOrder) -> Service:
    """Start the program of a server in a sandbox.

    Raises:
        SandboxError: It cannot be started; the text says why.
    """
    if not isinstance(sandboxes, RunsServices):
        raise SandboxError("the configured provider of sandboxes cannot run MCP servers; use one of type http or sse")
    return await sandboxes.start_service(order)
