"""What is kept of logins at MCP servers: sealed, by owner and server."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.config.extensions import McpServerConfig
from deerflow.mcp.vault import KeyLost, Vault
from deerflow.persistence.database import Database
from deerflow.persistence.mcp_tokens import (
    BegunLogin,
    KeptToken,
    begin_login,
    claim_token,
    delete_token,
    delete_tokens_at,
    delete_tokens_of,
    places_of_logins,
    read_token,
    settle_claim,
    take_login,
    write_token,
)

OPERATOR = "*"
"""Owns what is got with credentials of the configuration, which are nobody's own."""
AuthMethod = Literal["none", "client_secret_post", "client_secret_basic"]


class Kept(BaseModel):
    """Something that is kept; what a newer version has added is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Endpoints(Kept):
    """Where an authorization server takes what."""

    token: str
    authorization: str = ""
    registration: str | None = None
    issuer: str | None = None
    resource: str | None = None
    """What the tokens are for, in the words of the server they are for."""
    scope: str | None = None
    """What the server asks to be allowed."""
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    names_itself: bool = False
    """Whether it says who it is when it sends people back."""


class ClientCard(Kept):
    """Who we are to an authorization server."""

    client_id: str
    client_secret: str | None = Field(default=None, repr=False)
    auth_method: AuthMethod = "none"
    redirect_uri: str | None = None
    issuer: str | None = None


class Tokens(Kept):
    """What a token endpoint gave."""

    access_token: str = Field(repr=False)
    token_type: str = "Bearer"
    expires_at: datetime | None = None
    refresh_token: str | None = Field(default=None, repr=False)
    scope: str | None = None
    obtained_at: datetime | None = None

    @property
    def header(self) -> str:
        """What goes into the header `Authorization`."""
        return f"{self.token_type} {self.access_token}"

    def is_fresh(self, now: datetime, skew_s: float = 0.0) -> bool:
        """Whether it holds for so many seconds more."""
        return self.expires_at is None or self.expires_at - timedelta(seconds=skew_s) > now


class Login(Kept):
    """A login: tokens, and what is needed to get new ones."""

    settings: str
    """Which configuration it belongs to; under another it is void."""
    tokens: Tokens | None = None
    """None: a person has to log in again; we are still known there."""
    client: ClientCard | None = None
    endpoints: Endpoints | None = None
    since: datetime | None = None


class Begun(Kept):
    """A login that waits for its person to come back."""

    server: str
    settings: str
    verifier: str = Field(repr=False)
    client: ClientCard
    endpoints: Endpoints
    redirect_uri: str
    return_to: str | None = None


@dataclass(frozen=True, slots=True)
class LoginStore:
    """Keeps logins in the database, where nobody can read them."""

    database: Database
    vault: Vault

    async def load(self, owner: str, server: str) -> Login | None:
        """A login; None when there is none.

        Raises:
            KeyLost: It was sealed with a key that is no longer there.
        """
        return await self._opened(
            owner, server, await self.database.read(partial(read_token, owner=owner, server=server))
        )

    async def save(self, owner: str, server: str, login: Login, now: datetime) -> None:
        """Keep a login in place of what was there."""
        sealed = await self._sealed(owner, server, login)
        await self.database.write(partial(write_token, owner=owner, server=server, sealed=sealed, now=now))

    async def claim(self, owner: str, server: str, claim: str, now: datetime, lease: timedelta) -> Login | None | bool:
        """Be the one, of all processes, who fetches a new token: the login as it is now, or False while another does.

        Raises:
            KeyLost: It was sealed with a key that is no longer there; the claim holds all the same.
        """
        found = await self.database.write(
            partial(claim_token, owner=owner, server=server, claim=claim, now=now, lease=lease)
        )
        if isinstance(found, bool):
            return None if found else False
        return await self._opened(owner, server, found)

    async def settle(self, owner: str, server: str, claim: str, login: Login | None, now: datetime) -> bool:
        """Keep what was fetched, if anything was, and let others fetch again; False when that came too late."""
        sealed = await self._sealed(owner, server, login) if login is not None else None
        return await self.database.write(
            partial(settle_claim, owner=owner, server=server, claim=claim, sealed=sealed, now=now)
        )

    async def places(self) -> frozenset[str]:
        """The servers at which anybody has logged in; long names as the database has them."""
        return await self.database.read(partial(places_of_logins, but_not=OPERATOR))

    async def forget(self, owner: str, server: str) -> None:
        """Forget somebody's login at a server."""
        await self.database.write(partial(delete_token, owner=owner, server=server))

    async def forget_person(self, owner: str) -> None:
        """Forget all logins of somebody."""
        await self.database.write(partial(delete_tokens_of, owner=owner))

    async def forget_server(self, server: str) -> None:
        """Forget everybody's logins at a server."""
        await self.database.write(partial(delete_tokens_at, server=server))

    async def begin(self, owner: str, state: str, begun: Begun, now: datetime, expires_at: datetime) -> None:
        """Keep a login that begins, under a secret that is not kept itself."""
        hashed = hash_of(state)
        sealed = await asyncio.to_thread(self.vault.seal, begun.model_dump_json().encode(), place(owner, hashed))
        login = BegunLogin(begun.server, sealed, expires_at)
        await self.database.write(partial(begin_login, owner=owner, state_hash=hashed, login=login, now=now))

    async def take(self, owner: str, state: str, now: datetime) -> Begun | None:
        """The login that the owner began under this secret; it is there once."""
        hashed = hash_of(state)
        found = await self.database.write(partial(take_login, owner=owner, state_hash=hashed, now=now))
        if found is None:
            return None
        try:
            opened = await asyncio.to_thread(self.vault.open, found.sealed, place(owner, hashed))
            return Begun.model_validate_json(opened)
        except (KeyLost, ValidationError):
            return None

    async def _sealed(self, owner: str, server: str, login: Login) -> bytes:
        return await asyncio.to_thread(self.vault.seal, login.model_dump_json().encode(), place(owner, server))

    async def _opened(self, owner: str, server: str, kept: KeptToken | None) -> Login | None:
        if kept is None:
            return None
        opened = await asyncio.to_thread(self.vault.open, kept.sealed, place(owner, server))
        try:
            return Login.model_validate_json(opened)
        except ValidationError:
            raise KeyLost("it was kept by another version of this program") from None


def settings_of(server: McpServerConfig) -> str:
    """What tells the configuration a login belongs to from another one; what else is changed leaves it valid."""
    oauth = server.oauth
    said: Mapping[str, object] = {} if oauth is None else oauth.model_dump(exclude={"enabled", "refresh_skew_seconds"})
    return sha256(orjson.dumps([server.url, said], option=orjson.OPT_SORT_KEYS)).hexdigest()


def hash_of(secret: str) -> str:
    """What is kept of a secret."""
    return sha256(secret.encode(errors="replace")).hexdigest()


def place(owner: str, name: str) -> str:
    """What something is sealed as, so that it is of no use in another row."""
    return f"{owner}\0{name}"
