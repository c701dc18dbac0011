"""MCP servers: who starts them, where people log in, and where what is known of them is kept."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from deerflow.config.extensions import McpServerConfig
from deerflow.config.imports import load_object
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import SandboxError
from deerflow.mcp.catalog import McpCatalog
from deerflow.mcp.lazy_logins import LazyLogins
from deerflow.mcp.login_words import LoginDesk, Servers
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


def make_mcp_servers(source: ConfigSource, sandboxes: SandboxProvider, database: Database) -> McpServers:
    """What knows the servers, with logins and pins, and what people do with them."""
    loaded = source.current

    def entries() -> Mapping[str, McpServerConfig]:
        return source.refresh().extensions.mcp_servers

    vault, pins = Vault(loaded.home / KEY_FILE, loaded.environment.get(KEY_VARIABLE)), ToolPins(database)
    logins = LazyLogins(entries, lambda: cast(MakeLogins, load_object(LOGINS))(entries, database, vault))
    keep = sandboxes.keep_homes if isinstance(sandboxes, RunsServices) else None
    sessions = SessionPool(SessionKit(partial(start_service, sandboxes), logins, keep))
    shelf = ListingShelf(loaded.home / "mcp")
    catalog = McpCatalog(entries, sessions, shelf, pins=pins, tokens=logins, hide=source.hide)
    file = ServersFile(
        lambda: source.current.extensions_file,
        loaded.environment,
        lambda: source.refresh().extensions,
        lambda: source.hide(source.problem) if source.problem else None,
    )
    return McpServers(file, catalog, logins, pins)


async def start_service(sandboxes: SandboxProvider, order: ServiceOrder) -> Service:
    """Start the program of a server in a sandbox.

    Raises:
        SandboxError: It cannot be started; the text says why.
    """
    if not isinstance(sandboxes, RunsServices):
        raise SandboxError("the configured provider of sandboxes cannot run MCP servers; use one of type http or sse")
    return await sandboxes.start_service(order)
