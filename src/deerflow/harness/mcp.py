"""MCP servers: who starts them, and where what is known of them is kept."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

from deerflow.config.extensions import McpServerConfig
from deerflow.config.imports import load_object
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import SandboxError
from deerflow.mcp.auth import NoTokens, TokenSource
from deerflow.mcp.catalog import McpCatalog
from deerflow.mcp.lazy_logins import LazyLogins
from deerflow.mcp.login_words import LoginDesk, Servers
from deerflow.mcp.pins import Pins
from deerflow.mcp.servers import McpServers, ServersFile
from deerflow.mcp.sessions import SessionKit, SessionPool
from deerflow.mcp.shelf import ListingShelf
from deerflow.mcp.tool_pins import ToolPins
from deerflow.mcp.vault import KEY_VARIABLE, Vault
from deerflow.persistence.database import Database
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.sandbox.services import RunsServices, Service, ServiceOrder

KEY_FILE = "mcp.key"
LOGINS = "deerflow.mcp.login_desk:ServerLogins"
"""By name: only remote servers need it."""
MakeLogins = Callable[[Servers, Database, Vault], LoginDesk]


@asynccontextmanager
async def open_mcp(
    source: ConfigSource, sandboxes: SandboxProvider, tokens: TokenSource | None = None, pins: Pins | None = None
) -> AsyncIterator[McpCatalog]:
    """What knows the servers; their sessions end with it."""
    keep = sandboxes.keep_homes if isinstance(sandboxes, RunsServices) else None
    sessions = SessionPool(SessionKit(partial(start_service, sandboxes), tokens or NoTokens(), keep))
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


@asynccontextmanager
async def open_mcp_servers(
    source: ConfigSource, sandboxes: SandboxProvider, database: Database
) -> AsyncIterator[McpServers]:
    """The same with logins and pins, and what people do with servers."""
    loaded = source.current

    def entries() -> Mapping[str, McpServerConfig]:
        return source.refresh().extensions.mcp_servers

    vault, pins = Vault(loaded.home / KEY_FILE, loaded.environment.get(KEY_VARIABLE)), ToolPins(database)
    logins = LazyLogins(entries, lambda: cast(MakeLogins, load_object(LOGINS))(entries, database, vault))
    await logins.open()
    file = ServersFile(
        lambda: source.current.extensions_file,
        loaded.environment,
        lambda: source.refresh().extensions,
        lambda: source.hide(source.problem) if source.problem else None,
    )
    try:
        async with open_mcp(source, sandboxes, logins, pins) as catalog:
            yield McpServers(file, catalog, logins, pins)
    finally:
        await logins.aclose()


async def start_service(sandboxes: SandboxProvider, order: ServiceOrder) -> Service:
    """Start the program of a server in a sandbox.

    Raises:
        SandboxError: It cannot be started; the text says why.
    """
    if not isinstance(sandboxes, RunsServices):
        raise SandboxError("the configured provider of sandboxes cannot run MCP servers; use one of type http or sse")
    return await sandboxes.start_service(order)
