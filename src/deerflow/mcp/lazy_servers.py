"""MCP servers, loaded with the first of them: most installations have none."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING

from deerflow.config.extensions import McpServerConfig
from deerflow.mcp.offer import Offer

if TYPE_CHECKING:
    from deerflow.mcp.servers import McpServers


class LazyServers:
    """What runs need of servers: answers while there are none, and hands on the rest."""

    def __init__(
        self,
        entries: Callable[[], Mapping[str, McpServerConfig]],
        load: Callable[[], Callable[[], "McpServers"]],
        keep_homes: Callable[[Collection[str]], Awaitable[None]] | None,
    ) -> None:
        """`load` gives what makes the servers, and blocks; `keep_homes` removes what others have left."""
        self._entries = entries
        self._load = load
        self._keep_homes = keep_homes
        self._loaded: McpServers | None = None

    @property
    def loaded(self) -> "McpServers":
        """What people do with servers."""
        if self._loaded is None:
            self._loaded = self._load()()
        return self._loaded

    async def open(self) -> None:
        """Load what is needed already."""
        if self._entries():
            await self.loaded.logins.open()

    async def aclose(self) -> None:
        """End all sessions, and let what is being fetched come in."""
        if self._loaded is not None:
            try:
                await self._loaded.catalog.aclose()
            finally:
                await self._loaded.logins.aclose()

    def offer(self, user_id: str) -> Offer:
        """The tools for somebody; never waits, and may be asked in any thread."""
        return Offer() if self._loaded is None else self._loaded.catalog.offer(user_id)

    async def settle(self, user_id: str, wait_s: float | None = None) -> None:
        """See to it that servers are asked; see `McpCatalog.settle`."""
        if self._loaded is None and not self._entries():
            await self._clear_homes()
            return
        if self._loaded is None:
            await asyncio.to_thread(self._load)  # others are being answered meanwhile
        await self.loaded.catalog.settle(user_id, wait_s)

    async def forget_thread(self, thread_id: str, user_id: str) -> None:
        """End what was started for a thread."""
        if self._loaded is not None:
            await self._loaded.catalog.forget_thread(thread_id, user_id)

    async def _clear_homes(self) -> None:
        """Remove what the programs of servers have left that are gone since another start, once."""
        keep_homes, self._keep_homes = self._keep_homes, None
        if keep_homes is not None:
            await keep_homes(())
