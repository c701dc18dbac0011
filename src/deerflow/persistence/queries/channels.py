"""Rows of leases with the state of connections, of chat apps that were connected on the page, and of webhooks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from deerflow.domain.errors import NotFound
from deerflow.persistence.tables import (
    channel_chats,
    channel_connections,
    channel_inbound,
    channel_leases,
    hooks,
    insert_or_ignore,
    to_key,
)

FREE = ""
"""Name of the process that holds a lease which is free."""


@dataclass(frozen=True, slots=True)
class ChannelLeaseRow:
    """Lease of a channel: the process that holds it, and the state of its connection."""

    name: str
    process: str
    renewals: int
    restarts: int
    state: Mapping[str, Any]
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SavedChannelRow:
    """Chat app that was connected on the page; its settings are encrypted."""

    name: str
    sealed: bytes
    updated_at: datetime


def list_leases(connection: Connection) -> Sequence[ChannelLeaseRow]:
    """Return the leases of all channels."""
    return [to_lease(row) for row in connection.execute(select(channel_leases).order_by(channel_leases.c.name))]


def find_lease(connection: Connection, name: str) -> ChannelLeaseRow | None:
    """Return the lease of a channel, None if no process has held it yet."""
    row = connection.execute(select(channel_leases).where(channel_leases.c.name == name)).first()
    return None if row is None else to_lease(row)


def create_lease(connection: Connection, name: str) -> None:
    """Create the lease of a channel, which is free, unless there is one."""
    row = {"name": name, "process": FREE, "renewals": 0, "restarts": 0, "state": {}, "updated_at": datetime.now(UTC)}
    insert_or_ignore(connection, channel_leases, row)


def take_lease(connection: Connection, seen: ChannelLeaseRow, process: str) -> bool:
    """Take a lease over, unless it was renewed or taken since it was seen. Return whether it was taken."""
    table = channel_leases.c
    chosen = (table.name == seen.name) & (table.process == seen.process) & (table.renewals == seen.renewals)
    values = {"process": process, "renewals": seen.renewals + 1, "updated_at": datetime.now(UTC)}
    return connection.execute(update(channel_leases).where(chosen).values(values)).rowcount == 1


def renew_lease(connection: Connection, name: str, process: str, state: Mapping[str, Any]) -> int | None:
    """Renew a lease with the state of the connection. Return the number of restarts, None if it is lost."""
    table = channel_leases.c
    chosen = (table.name == name) & (table.process == process)
    values = {"renewals": table.renewals + 1, "state": dict(state), "updated_at": datetime.now(UTC)}
    if not connection.execute(update(channel_leases).where(chosen).values(values)).rowcount:
        return None
    restarts: int = connection.execute(select(table.restarts).where(chosen)).scalar_one()
    return restarts


def free_lease(connection: Connection, name: str, process: str, state: Mapping[str, Any]) -> None:
    """Free a lease that a process holds, so that others need not wait for it to expire."""
    table = channel_leases.c
    chosen = (table.name == name) & (table.process == process)
    values = {"process": FREE, "renewals": table.renewals + 1, "state": dict(state), "updated_at": datetime.now(UTC)}
    connection.execute(update(channel_leases).where(chosen).values(values))


def request_restart(connection: Connection, name: str) -> None:
    """Ask the process that holds a channel to connect again."""
    create_lease(connection, name)
    table = channel_leases.c
    connection.execute(update(channel_leases).where(table.name == name).values(restarts=table.restarts + 1))


def to_lease(row: Row[Any]) -> ChannelLeaseRow:
    """Return a lease from its row."""
    return ChannelLeaseRow(row.name, row.process, row.renewals, row.restarts, row.state, row.updated_at)


def list_saved_channels(connection: Connection) -> Sequence[SavedChannelRow]:
    """Return the chat apps that were connected on the page."""
    query = select(channel_connections).order_by(channel_connections.c.name)
    return [SavedChannelRow(**row._mapping) for row in connection.execute(query)]


def has_saved_channels(connection: Connection) -> bool:
    """Return whether a chat app was connected on the page."""
    return connection.execute(select(channel_connections.c.name).limit(1)).first() is not None


def save_channel(connection: Connection, name: str, sealed: bytes) -> None:
    """Save the settings of a chat app in place of those that are there."""
    connection.execute(delete(channel_connections).where(channel_connections.c.name == name))
    connection.execute(insert(channel_connections).values(name=name, sealed=sealed, updated_at=datetime.now(UTC)))


def delete_saved_channel(connection: Connection, name: str) -> None:
    """Delete the settings of a chat app, or raise `NotFound`."""
    if not connection.execute(delete(channel_connections).where(channel_connections.c.name == name)).rowcount:
        raise NotFound(f"no chat app {name!r} was connected on the page")


@dataclass(frozen=True, slots=True)
class HookRow:
    """Webhook of a person; its secret is encrypted."""

    hook_id: str
    owner: str
    name: str
    kind: str
    settings: Mapping[str, Any]
    sealed: bytes
    is_enabled: bool
    created_at: datetime


def find_hook(connection: Connection, hook_id: str) -> HookRow | None:
    """Return a hook of any person: who may use it is known after its signature is checked."""
    row = connection.execute(select(hooks).where(hooks.c.hook_id == hook_id)).first()
    return None if row is None else HookRow(**row._mapping)


def list_hooks(connection: Connection, owner: str) -> Sequence[HookRow]:
    """Return the hooks of a user, oldest first."""
    query = select(hooks).where(hooks.c.owner == owner).order_by(hooks.c.created_at, hooks.c.hook_id)
    return [HookRow(**row._mapping) for row in connection.execute(query)]


def insert_hook(connection: Connection, owner: str, hook: HookRow) -> None:
    """Insert a hook of a user."""
    values: dict[str, Any] = {"hook_id": hook.hook_id, "owner": owner, "name": to_key(hook.name), "kind": hook.kind}
    values |= {"settings": dict(hook.settings), "sealed": hook.sealed, "is_enabled": hook.is_enabled}
    connection.execute(insert(hooks).values(**values, created_at=hook.created_at))


def change_hook(connection: Connection, owner: str, hook_id: str, values: Mapping[str, Any]) -> HookRow:
    """Change a hook of a user and return it, or raise `NotFound`."""
    owned = (hooks.c.hook_id == hook_id) & (hooks.c.owner == owner)
    if not connection.execute(update(hooks).where(owned).values(**values)).rowcount:
        raise NotFound(f"no hook {hook_id!r}")
    return HookRow(**connection.execute(select(hooks).where(owned)).one()._mapping)


def delete_hook(connection: Connection, owner: str, hook_id: str) -> None:
    """Delete a hook of a user with its deliveries, or raise `NotFound`."""
    owned = (hooks.c.hook_id == hook_id) & (hooks.c.owner == owner)
    if not connection.execute(delete(hooks).where(owned)).rowcount:
        raise NotFound(f"no hook {hook_id!r}")
    for table in (channel_chats, channel_inbound):
        connection.execute(delete(table).where(table.c.account == hook_id, table.c.owner == owner))
