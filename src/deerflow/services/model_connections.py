"""Model connections that users save: checked, stored with an encrypted key, and part of the model registry."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from deerflow.config.sections.base import Settings
from deerflow.domain.errors import AddressRefused, Forbidden, InvalidRequest
from deerflow.domain.identity import Principal
from deerflow.models.check import CheckLimits, CheckReport, EndpointCheck
from deerflow.models.connection import (
    LOCAL_PROVIDERS,
    ConnectionProvider,
    ObservedCapabilities,
    describe_entry,
    find_provider,
    list_providers,
    normalize_address,
)
from deerflow.models.detection import LocalServer, list_local_servers
from deerflow.persistence.encryption import TokenCipher
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import model_connections as rows
from deerflow.sandbox.egress import EgressRefused, IPAddress, SystemResolver, canonical_host, is_public

PRIVATE_NETWORKS = tuple(
    map(IPv4Network, ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
) + tuple(map(IPv6Network, ("::1/128", "fc00::/7")))
METADATA_ADDRESSES = frozenset(map(ip_address, ("100.100.100.200", "fd00:ec2::254", "168.63.129.16", "192.0.0.192")))
"""Addresses at which clouds tell machines their credentials, besides the link-local ones."""
KeyState = Literal["set", "none", "unreadable"]


@dataclass(frozen=True, slots=True)
class ModelToSave:
    """Model that a user has chosen, with what a check has observed."""

    model: str
    observed: ObservedCapabilities = ObservedCapabilities()


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Saved model as its owner sees it."""

    name: str
    model: str
    display_name: str
    supports_tools: bool | None
    supports_thinking: bool
    supports_vision: bool
    context_window: int | None
    is_shadowed: bool
    """True if a model in `config.yaml` has the same name, and is used instead."""


@dataclass(frozen=True, slots=True)
class ModelConnection:
    """Saved connection as its owner sees it; of the key, only whether there is one."""

    connection_id: str
    provider: str
    title: str
    base_url: str
    key: KeyState
    updated_at: datetime
    models: Sequence[SavedModel]
    is_shared: bool = False
    """True if all users may use the models."""
    is_own: bool = True
    """False: another user shares it; its address is not shown."""


@dataclass(frozen=True, slots=True)
class FoundServer:
    """Local server that answers, with the number of its models."""

    provider: str
    title: str
    base_url: str
    model_count: int


@dataclass(frozen=True, slots=True)
class ModelConnections:
    """Connections of users. Every method is restricted to those of `who`."""

    database: Database
    cipher: TokenCipher
    publish: Callable[[], Awaitable[None]]
    """Adds the saved models to the model registry after a change."""
    environment: Mapping[str, str]
    configured_names: Settings[frozenset[str]]
    """Returns the names of the models in `config.yaml`, which win."""
    resolve: Callable[[str], Awaitable[Sequence[str]]] = field(default_factory=SystemResolver)
    limits: CheckLimits = CheckLimits()

    def list_providers(self) -> list[ConnectionProvider]:
        """Return the providers that can be connected."""
        return list_providers(self.environment)

    async def find_local_servers(self) -> list[FoundServer]:
        """Return the local servers that answer now."""
        servers = list_local_servers(self.environment)
        found = await asyncio.gather(*(self._probe(server) for server in servers))
        return [server for server in found if server is not None]

    async def _probe(self, server: LocalServer) -> FoundServer | None:
        models = await server.list_models()
        if not models:
            return None
        return FoundServer(LOCAL_PROVIDERS[server.title], server.title, server.base_url, len(models))

    async def check(
        self, who: Principal, provider: str, base_url: str | None, key: str | None, model: str | None = None
    ) -> CheckReport:
        """Check an endpoint; nothing is saved. Without a key, that of a saved connection to this address is used.

        Raises:
            InvalidRequest: The provider is unknown, or has no address.
        """
        known = find_provider(provider, self.environment)
        address = require_address(known, base_url)
        key = clean_key(key) or await self._find_key(who, known, address)
        guard = partial(check_host, self.resolve, allows_private=who.is_admin)
        check = EndpointCheck(known, address, key, guard, self.limits, is_public_only=not who.is_admin)
        return await check.run(model)

    async def check_saved(self, who: Principal, connection_id: str, model: str | None = None) -> CheckReport:
        """Check a saved connection again, or raise `NotFound`."""
        row = await self.database.read(partial(rows.find_connection, owner=who.user_id, connection_id=connection_id))
        tested = model or next((saved.model for saved in row.models), None)
        return await self.check(who, row.provider, row.base_url, None, tested)

    async def list(self, who: Principal) -> list[ModelConnection]:
        """Return the connections of a user, then those that others share, without their addresses."""
        found = await self.database.read(rows.list_connections)
        own = [row for row in found if row.owner == who.user_id]
        shared = [row for row in found if row.owner != who.user_id and row.is_shared]
        described = await asyncio.to_thread(lambda: [self._describe(row) for row in (*own, *shared)])
        return [*described[: len(own)], *(replace(each, base_url="", is_own=False) for each in described[len(own) :])]

    async def share(self, who: Principal, connection_id: str, is_shared: bool) -> ModelConnection:
        """Let all users use the models of a connection, or no longer.

        Raises:
            Forbidden: The user is no administrator.
            NotFound: There is no such connection of the user.
        """
        await self._find(who, connection_id)  # a connection of another user is not found
        if not who.is_admin:
            raise Forbidden("only an administrator can share models")
        change = partial(rows.share_connection, owner=who.user_id, connection_id=connection_id, is_shared=is_shared)
        await self.database.write(change)
        await self.publish()
        return await self._find(who, connection_id)

    async def save(
        self, who: Principal, provider: str, base_url: str | None, key: str | None, models: Sequence[ModelToSave]
    ) -> ModelConnection:
        """Save models of a provider, with the key if there is one. Models of the same address are added to it.

        Raises:
            InvalidRequest: The provider is unknown, the address invalid or not allowed, or no model is given.
            Conflict: There are too many models.
        """
        known = find_provider(provider, self.environment)
        address = normalize_address(require_address(known, base_url))
        await self._check_address(who, address)
        if not who.is_admin and known.protocol != "openai" and address != known.base_url:
            raise AddressRefused(f"only an administrator can use {known.title} at another address")
        if not models:
            raise InvalidRequest("choose at least one model")
        sealed = await self._seal(who, address, clean_key(key))
        added = [self._to_row(who, known, each) for each in models]
        change = partial(rows.save_connection, owner=who.user_id, provider=known.id, base_url=address)
        connection_id = await self.database.write(partial(change, sealed=sealed, added=added, now=datetime.now(UTC)))
        await self.publish()
        return await self._find(who, connection_id)

    async def replace_key(self, who: Principal, connection_id: str, key: str) -> ModelConnection:
        """Replace the key of a connection, or raise `NotFound`."""
        row = await self.database.read(partial(rows.find_connection, owner=who.user_id, connection_id=connection_id))
        sealed = await self._seal(who, row.base_url, clean_key(key))
        if sealed is None:
            raise InvalidRequest("the key is empty")
        change = partial(rows.replace_key, owner=who.user_id, connection_id=connection_id, sealed=sealed)
        await self.database.write(partial(change, now=datetime.now(UTC)))
        await self.publish()
        return await self._find(who, connection_id)

    async def remove(self, who: Principal, connection_id: str) -> None:
        """Delete a connection with its key and models, or raise `NotFound`."""
        await self.database.write(partial(rows.delete_connection, owner=who.user_id, connection_id=connection_id))
        await self.publish()

    async def remove_model(self, who: Principal, name: str) -> None:
        """Delete a model, and its connection if that was the last one, or raise `NotFound`."""
        await self.database.write(partial(rows.delete_saved_model, owner=who.user_id, name=name))
        await self.publish()

    async def _find(self, who: Principal, connection_id: str) -> ModelConnection:
        row = await self.database.read(partial(rows.find_connection, owner=who.user_id, connection_id=connection_id))
        return await asyncio.to_thread(self._describe, row)

    async def _find_key(self, who: Principal, provider: ConnectionProvider, address: str) -> str | None:
        """Return the key of a saved connection to exactly this address."""
        try:
            wanted = normalize_address(address)
        except InvalidRequest:
            return None
        for row in await self.database.read(partial(rows.list_connections, owner=who.user_id)):
            if (row.provider, row.base_url) == (provider.id, wanted):
                return await asyncio.to_thread(rows.decrypt_key, self.cipher, row)
        return None

    async def _seal(self, who: Principal, address: str, key: str | None) -> bytes | None:
        if key is None:
            return None
        return await asyncio.to_thread(self.cipher.encrypt, key.encode(), rows.associated_data(who.user_id, address))

    async def _check_address(self, who: Principal, address: str) -> None:
        try:
            await check_host(self.resolve, urlsplit(address).hostname or "", allows_private=who.is_admin)
        except OSError:
            return  # a name that is unknown now may be known later; the connection checks it again

    def _to_row(self, who: Principal, provider: ConnectionProvider, chosen: ModelToSave) -> rows.SavedModelRow:
        model = chosen.model.strip()
        if not model or len(model) > 255 or not model.isprintable():
            raise InvalidRequest("the name of a model has 1 to 255 printable characters")
        observed = chosen.observed
        entry = describe_entry(provider, model, observed)
        settings: dict[str, Any] = {"entry": entry, "tools": observed.tools, rows.SAVED_BY_ADMIN: who.is_admin}
        return rows.SavedModelRow(model.removeprefix("models/"), model, settings)

    def _describe(self, row: rows.ConnectionRow) -> ModelConnection:
        key: KeyState = "none"
        if row.sealed is not None:
            key = "unreadable" if rows.decrypt_key(self.cipher, row) is None else "set"
        taken = self.configured_names.current
        titles = {provider.id: provider.title for provider in list_providers(self.environment)}
        models = [describe_model(saved, saved.name in taken) for saved in row.models]
        title = titles.get(row.provider, row.provider)
        return ModelConnection(
            row.connection_id, row.provider, title, row.base_url, key, row.updated_at, models, row.is_shared
        )


def describe_model(saved: rows.SavedModelRow, is_shadowed: bool) -> SavedModel:
    """Return a saved model as its owner sees it."""
    entry = saved.settings.get("entry", {})
    return SavedModel(
        saved.name,
        saved.model,
        entry.get("display_name", saved.name),
        saved.settings.get("tools"),
        bool(entry.get("supports_thinking") or entry.get("supports_reasoning_effort")),
        bool(entry.get("supports_vision")),
        entry.get("context_window"),
        is_shadowed,
    )


def require_address(provider: ConnectionProvider, base_url: str | None) -> str:
    """Return the given address, or that of the provider.

    Raises:
        InvalidRequest: There is none.
    """
    address = (base_url or "").strip() or provider.base_url
    if not address:
        raise InvalidRequest(f"an address is required for {provider.title}")
    return address


def clean_key(key: str | None) -> str | None:
    """Return a pasted key without quotes and white space; None if it is empty.

    Raises:
        InvalidRequest: It cannot be sent as a header.
    """
    cleaned = (key or "").strip().strip("'\"").removeprefix("Bearer ").strip()
    if not cleaned:
        return None
    if len(cleaned) > 4096 or not cleaned.isascii() or not cleaned.isprintable():
        raise InvalidRequest("the key has characters that no key has; copy it again")
    return cleaned


def is_model_address(address: IPAddress, *, allows_private: bool) -> bool:
    """Return whether models may be reached at an address: never where clouds keep credentials of their machines."""
    if address in METADATA_ADDRESSES:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    is_private = any(mapped.version == network.version and mapped in network for network in PRIVATE_NETWORKS)
    return is_public(address) or (allows_private and is_private and mapped not in METADATA_ADDRESSES)


async def check_host(resolve: Callable[[str], Awaitable[Sequence[str]]], host: str, *, allows_private: bool) -> None:
    """Check that models may be reached at a host, by all of its addresses.

    Raises:
        AddressRefused: They may not.
        OSError: The name is unknown.
    """
    try:
        name = canonical_host(host.strip("[]"))
    except EgressRefused as refused:
        raise AddressRefused(str(refused)) from refused
    try:
        found = [ip_address(name)]
    except ValueError:
        found = [ip_address(text) for text in await resolve(name)]
    if not all(is_model_address(address, allows_private=allows_private) for address in found):
        raise AddressRefused(f"{name} is not an address at which models may be reached")
