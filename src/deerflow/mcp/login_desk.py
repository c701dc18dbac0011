"""Logins at MCP servers, all parts together."""

from deerflow.community.web.http import Trust
from deerflow.mcp.login_words import CameBack, Finished, LoginStatus, Servers, Started
from deerflow.mcp.logins import LoginStore
from deerflow.mcp.oauth_login import BrowserLogins
from deerflow.mcp.tokens import ServerTokens
from deerflow.mcp.vault import Vault
from deerflow.persistence.database import Database


class ServerLogins:
    """Keeps logins in the database, renews them, and makes them in browsers."""

    def __init__(self, servers: Servers, database: Database, vault: Vault) -> None:
        trust = Trust()
        self._store = LoginStore(database, vault)
        self._tokens = ServerTokens(servers, self._store, trust=trust)
        self._browser = BrowserLogins(servers, self._store, trust=trust)

    async def open(self) -> None:
        await self._tokens.open()

    async def aclose(self) -> None:
        await self._tokens.aclose()

    def is_personal(self, server: str) -> bool:
        return self._tokens.is_personal(server)

    async def header(self, server: str, user_id: str) -> str | None:
        return await self._tokens.header(server, user_id)

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        return await self._tokens.rejected(server, user_id, header, challenge)

    async def status(self, server: str, user_id: str) -> LoginStatus:
        return await self._tokens.status(server, user_id)

    async def start(self, server: str, user_id: str, redirect_uri: str, return_to: str | None = None) -> Started:
        return await self._browser.start(server, user_id, redirect_uri, return_to)

    async def finish(self, user_id: str, back: CameBack) -> Finished:
        return await self._browser.finish(user_id, back)

    async def forget(self, user_id: str, server: str) -> None:
        await self._store.forget(user_id, server)

    async def forget_server(self, server: str) -> None:
        await self._store.forget_server(server)
