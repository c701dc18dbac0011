"""MCP servers of a harness, imported and created with the first configured server: most installations have none."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.config.source import ConfigSource
from deerflow.mcp.status import ToolOffer
from deerflow.persistence.engine.database import Database
from deerflow.sandbox.jobs.services import Service, ServiceProvider, ServiceSpec
from deerflow.sandbox.sandbox_provider import HostContext, SandboxProvider

if TYPE_CHECKING:
    from deerflow.mcp.servers import McpServerManager
    from deerflow.sandbox.local import LocalSandboxProvider


class McpRuntime:
    """MCP servers as runs need them."""

    def __init__(self, source: ConfigSource, sandboxes: SandboxProvider, database: Database) -> None:
        self._source = source
        self._database = database
        self._services = ServiceStarter(source, sandboxes)
        self._prune_homes = sandboxes.prune_homes if isinstance(sandboxes, ServiceProvider) else None
        self._are_homes_pruned = False

    @cached_property
    def servers(self) -> "McpServerManager":
        """MCP servers as people manage them."""
        from deerflow.mcp.auth.service import OAuthService
        from deerflow.mcp.auth.token_store import TokenStore
        from deerflow.mcp.catalog import McpCatalog, ToolListCache
        from deerflow.mcp.pins import ToolPins
        from deerflow.mcp.servers import McpConfigFile, McpServerManager
        from deerflow.mcp.session.calls import SessionDependencies
        from deerflow.mcp.session.pool import SessionPool
        from deerflow.persistence.encryption import KEY_FILE, KEY_VARIABLE, TokenCipher

        source, loaded = self._source, self._source.current
        vault = TokenCipher(loaded.home / KEY_FILE, loaded.environment.get(KEY_VARIABLE))
        oauth = OAuthService(self._entries, TokenStore(self._database, vault))
        sessions = SessionPool(SessionDependencies(self._services.start, oauth, self._prune_homes))
        pins = ToolPins(self._database)
        cache = ToolListCache(loaded.home / "mcp")
        catalog = McpCatalog(self._entries, sessions, cache, pins=pins, tokens=oauth, redact=source.redact)
        file = McpConfigFile(
            lambda: source.current.extensions_file,
            loaded.environment,
            lambda: source.refresh().extensions,
            lambda: source.redact(source.problem) if source.problem else None,
        )
        return McpServerManager(file, catalog, oauth, pins)

    @property
    def is_loaded(self) -> bool:
        """Whether `servers` was used."""
        return "servers" in vars(self)

    async def open(self) -> None:
        """Load the servers if any are configured."""
        if self._entries():
            await self.servers.oauth.open()

    async def aclose(self) -> None:
        """End all sessions and wait for token renewals in progress."""
        if self.is_loaded:
            try:
                await self.servers.catalog.aclose()
            finally:
                await self.servers.oauth.aclose()
                await self._services.aclose()

    def offer(self, user_id: str) -> ToolOffer:
        """Return the tools for a user. Never waits, and may be called in any thread."""
        return self.servers.catalog.offer(user_id) if self.is_loaded else ToolOffer()

    async def prepare(self, user_id: str, wait_s: float | None = None) -> None:
        """Make sure servers are listed; see `McpCatalog.prepare`."""
        if not self.is_loaded:
            if not self._entries():
                await self._prune_all_homes()
                return
            await asyncio.to_thread(preload_servers)
            await self.servers.oauth.open()
        await self.servers.catalog.prepare(user_id, wait_s)

    async def forget_thread(self, thread_id: str, user_id: str) -> None:
        """End the sessions of a thread."""
        if self.is_loaded:
            await self.servers.catalog.forget_thread(thread_id, user_id)

    def _entries(self) -> Mapping[str, McpServerConfig]:
        return self._source.refresh().extensions.mcp_servers

    async def _prune_all_homes(self) -> None:
        """Remove the home folders of servers removed while the harness was not running, once."""
        if self._prune_homes is not None and not self._are_homes_pruned:
            self._are_homes_pruned = True
            await self._prune_homes(())


@asynccontextmanager
async def open_mcp(source: ConfigSource, sandboxes: SandboxProvider, database: Database) -> AsyncIterator[McpRuntime]:
    """Open the MCP servers; their sessions end with the context."""
    runtime = McpRuntime(source, sandboxes, database)
    try:
        await runtime.open()
        yield runtime
    finally:
        await runtime.aclose()


def preload_servers() -> None:
    """Import what `McpRuntime.servers` needs, which takes long; call it in a thread."""
    import deerflow.mcp.auth.service
    import deerflow.mcp.servers  # noqa: F401


class ServiceStarter:
    """Starts the processes of servers in the configured sandbox.

    A container sandbox has no services. Their processes are then isolated on this machine, next to the containers, with
    the same files of the thread.
    """

    def __init__(self, source: ConfigSource, sandboxes: SandboxProvider) -> None:
        self._source = source
        self._sandboxes = sandboxes
        self._local: LocalSandboxProvider | None = None
        self._opening = asyncio.Lock()

    async def start(self, spec: ServiceSpec) -> Service:
        """Start the process of a server.

        Raises:
            SandboxError: It cannot be started; the text says why.
        """
        if isinstance(self._sandboxes, ServiceProvider):
            return await self._sandboxes.start_service(spec)
        async with self._opening:
            if self._local is None:
                self._local = await self._open_local()
        return await self._local.start_service(spec)

    async def aclose(self) -> None:
        """Close the sandbox that was opened for services."""
        if self._local is not None:
            await self._local.aclose()

    async def _open_local(self) -> "LocalSandboxProvider":
        await asyncio.to_thread(preload_local_sandbox)
        from deerflow.sandbox.local import LocalSandboxProvider

        loaded = self._source.current
        sandbox = loaded.config.sandbox
        # Those who configure a container do not expect processes outside of any isolation.
        changed = {"allow_host_bash": False, "toolbox": sandbox.toolbox.model_copy(update={"enabled": False})}
        host = HostContext(loaded.home, loaded.cache, None, loaded.environment)
        local = LocalSandboxProvider(sandbox.model_copy(update=changed), host)
        await local.open()
        return local


def preload_local_sandbox() -> None:
    """Import the local sandbox, which is not loaded where the sandbox is a container."""
    import deerflow.sandbox.local  # noqa: F401
