"""MCP servers as runs use them, imported and created with the first configured server: most installations have none."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deerflow.config.sections.base import Settings
from deerflow.config.sections.extensions import Extensions, McpServerConfig
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.mcp.status import ToolOffer
from deerflow.persistence.encryption import KEY_FILE, KEY_VARIABLE, TokenCipher
from deerflow.persistence.engine.database import Database
from deerflow.sandbox.jobs.services import Service, ServiceProvider, ServiceSpec
from deerflow.sandbox.sandbox_provider import HostContext, SandboxProvider

if TYPE_CHECKING:
    from deerflow.mcp.servers import McpServerManager
    from deerflow.sandbox.local import LocalSandboxProvider


@dataclass(frozen=True, slots=True)
class McpDependencies:
    """Settings and infrastructure that MCP servers need."""

    extensions: Settings[Extensions]
    extensions_file: Settings[Path]
    problem: Callable[[], str | None]
    """Returns the error of the file as it is now, without secrets."""
    sandbox: SandboxConfig
    host: HostContext
    sandboxes: SandboxProvider
    database: Database
    redact: Callable[[str], str]


class McpRuntime:
    """MCP servers as runs need them."""

    def __init__(self, dependencies: McpDependencies) -> None:
        sandboxes = dependencies.sandboxes
        self._dependencies = dependencies
        self._entries: Settings[Mapping[str, McpServerConfig]] = Settings(
            lambda: dependencies.extensions.current.mcp_servers
        )
        self._services = ServiceStarter(dependencies.sandbox, dependencies.host, sandboxes)
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

        needs, host = self._dependencies, self._dependencies.host
        cipher = TokenCipher(host.home / KEY_FILE, host.environment.get(KEY_VARIABLE))
        oauth = OAuthService(self._entries, TokenStore(needs.database, cipher))
        sessions = SessionPool(SessionDependencies(self._services.start, oauth, self._prune_homes))
        pins = ToolPins(needs.database)
        cache = ToolListCache(host.home / "mcp")
        catalog = McpCatalog(self._entries, sessions, cache, pins=pins, tokens=oauth, redact=needs.redact)
        file = McpConfigFile(needs.extensions_file, host.environment, needs.extensions, needs.problem)
        return McpServerManager(file, catalog, oauth, pins)

    @property
    def is_loaded(self) -> bool:
        """Whether `servers` was used."""
        return "servers" in vars(self)

    async def open(self) -> None:
        """Load the servers if any are configured."""
        if self._entries.current:
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
            if not self._entries.current:
                await self._prune_all_homes()
                return
            await asyncio.to_thread(preload_servers)
            await self.servers.oauth.open()
        await self.servers.catalog.prepare(user_id, wait_s)

    async def forget_thread(self, thread_id: str, user_id: str) -> None:
        """End the sessions of a thread."""
        if self.is_loaded:
            await self.servers.catalog.forget_thread(thread_id, user_id)

    async def _prune_all_homes(self) -> None:
        """Remove the home folders of servers removed while the harness was not running, once."""
        if self._prune_homes is not None and not self._are_homes_pruned:
            self._are_homes_pruned = True
            await self._prune_homes(())


@asynccontextmanager
async def open_mcp(dependencies: McpDependencies) -> AsyncIterator[McpRuntime]:
    """Open the MCP servers; their sessions end with the context."""
    runtime = McpRuntime(dependencies)
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

    def __init__(self, config: SandboxConfig, host: HostContext, sandboxes: SandboxProvider) -> None:
        self._config = config
        self._host = host
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

        # Those who configure a container do not expect processes outside of any isolation.
        changed = {"allow_host_bash": False, "toolbox": self._config.toolbox.model_copy(update={"enabled": False})}
        local = LocalSandboxProvider(self._config.model_copy(update=changed), self._host)
        await local.open()
        return local


def preload_local_sandbox() -> None:
    """Import the local sandbox, which is not loaded where the sandbox is a container."""
    import deerflow.sandbox.local  # noqa: F401
