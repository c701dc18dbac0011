"""Logins, loaded with the first server that may want one: most installations have none."""

from collections.abc import Callable

from deerflow.mcp.login_words import CameBack, Finished, LoginDesk, LoginStatus, Servers, Started, login_kind


class LazyLogins:
    """Answers for servers that take no login, and hands on the rest."""

    def __init__(self, servers: Servers, make: Callable[[], LoginDesk]) -> None:
        self._servers = servers
        self._make = make
        self._desk: LoginDesk | None = None
        self._is_open = False

    async def open(self) -> None:
        """Load what is needed already."""
        if any(self._takes_login(server) for server in self._servers()):
            await self._opened()

    async def aclose(self) -> None:
        if self._desk is not None:
            await self._desk.aclose()

    def is_personal(self, server: str) -> bool:
        return self._takes_login(server) and self._loaded().is_personal(server)

    async def header(self, server: str, user_id: str) -> str | None:
        return await (await self._opened()).header(server, user_id) if self._takes_login(server) else None

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        if not self._takes_login(server):
            return False
        return await (await self._opened()).rejected(server, user_id, header, challenge)

    async def status(self, server: str, user_id: str) -> LoginStatus:
        if not self._takes_login(server):
            return LoginStatus("none", "not_needed")
        return await (await self._opened()).status(server, user_id)

    async def start(self, server: str, user_id: str, redirect_uri: str, return_to: str | None = None) -> Started:
        return await (await self._opened()).start(server, user_id, redirect_uri, return_to)

    async def finish(self, user_id: str, back: CameBack) -> Finished:
        return await (await self._opened()).finish(user_id, back)

    async def forget(self, user_id: str, server: str) -> None:
        await (await self._opened()).forget(user_id, server)

    async def forget_server(self, server: str) -> None:
        await (await self._opened()).forget_server(server)

    def _takes_login(self, server: str) -> bool:
        config = self._servers().get(server)
        return config is not None and login_kind(config) != "none"

    def _loaded(self) -> LoginDesk:
        if self._desk is None:
            self._desk = self._make()
        return self._desk

    async def _opened(self) -> LoginDesk:
        desk = self._loaded()
        if not self._is_open:
            self._is_open = True
            await desk.open()
        return desk
