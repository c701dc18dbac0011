"""Encrypted storage of logins at MCP servers, by owner and server."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.mcp.queries import (
    PendingLogin,
    StoredToken,
    claim_token,
    delete_server_tokens,
    delete_token,
    insert_login,
    list_login_servers,
    pop_login,
    read_token,
    release_claim,
    write_token,
)
from deerflow.persistence.encryption import DecryptionError, TokenCipher
from deerflow.persistence.engine.database import Database

OPERATOR = "*"
"""Owner of tokens obtained with configured credentials."""
AuthMethod = Literal["none", "client_secret_post", "client_secret_basic"]


class StoredModel(BaseModel):
    """Model stored as JSON; fields of newer versions are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class OAuthEndpoints(StoredModel):
    """Endpoints of an authorization server."""

    token: str
    authorization: str = ""
    registration: str | None = None
    issuer: str | None = None
    resource: str | None = None
    """Resource indicator of the tokens, as the MCP server states it."""
    scope: str | None = None
    """Scope the server asks for."""
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    names_itself: bool = False
    """True if redirects contain the issuer (RFC 9207)."""
    supports_pkce: bool = True
    accepts_client_url: bool = False
    """True if the URL of a client metadata document can be used as `client_id`."""


class OAuthClient(StoredModel):
    """Client registration at an authorization server."""

    client_id: str
    client_secret: str | None = Field(default=None, repr=False)
    auth_method: AuthMethod = "none"
    redirect_uri: str | None = None
    issuer: str | None = None


class TokenSet(StoredModel):
    """Tokens from a token endpoint."""

    access_token: str = Field(repr=False)
    token_type: str = "Bearer"
    expires_at: datetime | None = None
    refresh_token: str | None = Field(default=None, repr=False)
    scope: str | None = None
    obtained_at: datetime | None = None

    @property
    def header(self) -> str:
        """Return the value of the `Authorization` header."""
        return f"{self.token_type} {self.access_token}"

    def is_fresh(self, now: datetime, skew_s: float = 0.0) -> bool:
        """Return whether the token is valid for `skew_s` more seconds."""
        return self.expires_at is None or self.expires_at - timedelta(seconds=skew_s) > now


class StoredLogin(StoredModel):
    """Login: tokens, and what is needed to renew them."""

    settings: str
    """Digest of the settings the login belongs to; with other settings it is invalid."""
    tokens: TokenSet | None = None
    """None: the user has to log in again; the client registration is still valid."""
    client: OAuthClient | None = None
    endpoints: OAuthEndpoints | None = None
    since: datetime | None = None


class PendingAuthorization(StoredModel):
    """Login that waits for the redirect."""

    server: str
    settings: str
    verifier: str = Field(repr=False)
    client: OAuthClient
    endpoints: OAuthEndpoints
    redirect_uri: str
    return_to: str | None = None


@dataclass(frozen=True, slots=True)
class TokenStore:
    """Stores logins encrypted in the database."""

    database: Database
    cipher: TokenCipher

    async def load(self, owner: str, server: str) -> StoredLogin | None:
        """Return a login; None when there is none.

        Raises:
            DecryptionError: It was encrypted with another key.
        """
        return await self._decrypt(
            owner, server, await self.database.read(partial(read_token, owner=owner, server=server))
        )

    async def save(self, owner: str, server: str, login: StoredLogin, now: datetime) -> None:
        """Store a login, replacing the previous one."""
        sealed = await self._encrypt(owner, server, login)
        await self.database.write(partial(write_token, owner=owner, server=server, sealed=sealed, now=now))

    async def claim(
        self, owner: str, server: str, claim: str, now: datetime, lease: timedelta
    ) -> StoredLogin | None | bool:
        """Claim the renewal of a token among all processes. Return the login; False while another process renews it.

        Raises:
            DecryptionError: The login was encrypted with another key; the claim is held nevertheless.
        """
        found = await self.database.write(
            partial(claim_token, owner=owner, server=server, claim=claim, now=now, lease=lease)
        )
        if isinstance(found, bool):
            return None if found else False
        return await self._decrypt(owner, server, found)

    async def release(self, owner: str, server: str, claim: str, login: StoredLogin | None, now: datetime) -> bool:
        """Store the renewed login, if any, and release the claim. Return False when the claim was lost."""
        sealed = await self._encrypt(owner, server, login) if login is not None else None
        return await self.database.write(
            partial(release_claim, owner=owner, server=server, claim=claim, sealed=sealed, now=now)
        )

    async def list_servers(self) -> frozenset[str]:
        """Return the servers with logins of users; long names as stored."""
        return await self.database.read(partial(list_login_servers, except_owner=OPERATOR))

    async def forget(self, owner: str, server: str) -> None:
        """Delete a login."""
        await self.database.write(partial(delete_token, owner=owner, server=server))

    async def forget_server(self, server: str) -> None:
        """Delete all logins at a server."""
        await self.database.write(partial(delete_server_tokens, server=server))

    async def add_pending(
        self, owner: str, state: str, pending: PendingAuthorization, now: datetime, expires_at: datetime
    ) -> None:
        """Store a started login under the hash of its state."""
        hashed = hash_secret(state)
        sealed = await asyncio.to_thread(
            self.cipher.encrypt, pending.model_dump_json().encode(), associated_data(owner, hashed)
        )
        login = PendingLogin(pending.server, sealed, expires_at)
        await self.database.write(partial(insert_login, owner=owner, state_hash=hashed, login=login, now=now))

    async def pop_pending(self, owner: str, state: str, now: datetime) -> PendingAuthorization | None:
        """Return and remove the login the owner started with this state."""
        hashed = hash_secret(state)
        found = await self.database.write(partial(pop_login, owner=owner, state_hash=hashed, now=now))
        if found is None:
            return None
        try:
            decrypted = await asyncio.to_thread(self.cipher.decrypt, found.sealed, associated_data(owner, hashed))
            return PendingAuthorization.model_validate_json(decrypted)
        except (DecryptionError, ValidationError):
            return None

    async def _encrypt(self, owner: str, server: str, login: StoredLogin) -> bytes:
        return await asyncio.to_thread(
            self.cipher.encrypt, login.model_dump_json().encode(), associated_data(owner, server)
        )

    async def _decrypt(self, owner: str, server: str, stored: StoredToken | None) -> StoredLogin | None:
        if stored is None:
            return None
        decrypted = await asyncio.to_thread(self.cipher.decrypt, stored.sealed, associated_data(owner, server))
        try:
            return StoredLogin.model_validate_json(decrypted)
        except ValidationError:
            raise DecryptionError("stored by an incompatible version") from None


def settings_digest(server: McpServerConfig) -> str:
    """Return a digest of the settings a login depends on. Other settings may change without invalidating it."""
    oauth = server.oauth
    settings: Mapping[str, object] = (
        {} if oauth is None else oauth.model_dump(exclude={"enabled", "refresh_skew_seconds"})
    )
    return sha256(orjson.dumps([server.url, settings], option=orjson.OPT_SORT_KEYS)).hexdigest()


def hash_secret(secret: str) -> str:
    """Return the hash under which a secret is stored."""
    return sha256(secret.encode(errors="replace")).hexdigest()


def associated_data(owner: str, name: str) -> str:
    """Return the associated data of an encrypted value, so that it is useless in another row."""
    return f"{owner}\0{name}"
