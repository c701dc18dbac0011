"""Who logs in at remote MCP servers, as the client sees it."""

from typing import Protocol

from deerflow.domain.errors import DeerFlowError


class LoginNeeded(DeerFlowError):
    """A person has to log in at the server before it can be used; the text says where."""


class TokenSource(Protocol):
    """Knows what goes into the `Authorization` header of requests to a server."""

    def is_personal(self, server: str) -> bool:
        """Whether each user has a login of their own; what the server offers is then kept by user."""
        ...

    async def header(self, server: str, user_id: str) -> str | None:
        """The value of the header; None when the server wants none beyond its configured ones.

        Raises:
            LoginNeeded: The user has to log in first.
            DeerFlowError: No token can be had; the text says why.
        """
        ...

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        """Told of a 401: what was sent, and `WWW-Authenticate`. Whether it is worth asking `header` again.

        Raises:
            LoginNeeded: The user has to log in again.
        """
        ...


class NoTokens:
    """Nobody logs in anywhere."""

    def is_personal(self, server: str) -> bool:
        return False

    async def header(self, server: str, user_id: str) -> str | None:
        return None

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        return False
