"""Rows of saved connections to model providers. Every query is restricted to the rows of one owner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import new_id
from deerflow.persistence.tables import model_connections as connections
from deerflow.persistence.tables import saved_models as models
from deerflow.persistence.tables import to_key

MAX_MODELS = 200
"""Maximum number of saved models of an owner."""


@dataclass(frozen=True, slots=True)
class SavedModelRow:
    """Saved model: its name here, its name at the provider, and settings of its entry."""

    name: str
    model: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """Saved connection with its models, oldest first."""

    owner: str
    connection_id: str
    provider: str
    base_url: str
    sealed: bytes | None
    updated_at: datetime
    models: Sequence[SavedModelRow] = ()


def list_connections(connection: Connection, owner: str | None = None) -> Sequence[ConnectionRow]:
    """Return the connections of an owner; of all owners, for the model registry of the server, if it is None."""
    query = select(connections).order_by(connections.c.owner, connections.c.connection_id)
    named = select(models).order_by(models.c.created_at, models.c.name)
    if owner is not None:
        query, named = query.where(connections.c.owner == owner), named.where(models.c.owner == owner)
    found: dict[tuple[str, str], list[SavedModelRow]] = {}
    for row in connection.execute(named):
        found.setdefault((row.owner, row.connection_id), []).append(SavedModelRow(row.name, row.model, row.settings))
    return [
        ConnectionRow(
            row.owner,
            row.connection_id,
            row.provider,
            row.base_url,
            row.sealed,
            row.updated_at,
            found.get((row.owner, row.connection_id), ()),
        )
        for row in connection.execute(query)
    ]


def find_connection(connection: Connection, owner: str, connection_id: str) -> ConnectionRow:
    """Return a connection of an owner, or raise `NotFound`."""
    for row in list_connections(connection, owner):
        if row.connection_id == connection_id:
            return row
    raise NotFound(f"no model connection {connection_id!r}")


def save_connection(
    connection: Connection,
    owner: str,
    provider: str,
    base_url: str,
    sealed: bytes | None,
    added: Sequence[SavedModelRow],
    now: datetime,
) -> str:
    """Add models to the connection with this address, which is created if there is none, and return its id.

    Models that are there already get the new settings; others stay. Without a key, the stored key stays.

    Raises:
        Conflict: The owner has too many models.
    """
    address = (connections.c.owner == owner, connections.c.provider == provider, connections.c.base_url == base_url)
    values = {"connection_id": new_id(), "provider": provider, "base_url": base_url}
    if not insert_new(connection, connections, owner, {**values, "sealed": sealed, "updated_at": now}):
        changes = {"updated_at": now} if sealed is None else {"updated_at": now, "sealed": sealed}
        connection.execute(update(connections).where(*address), changes)
    connection_id: str = connection.execute(select(connections.c.connection_id).where(*address)).scalar_one()
    for model in added:
        put_model(connection, owner, connection_id, provider, model, now)
    total = connection.execute(select(func.count()).select_from(models).where(models.c.owner == owner)).scalar_one()
    if total > MAX_MODELS:
        raise Conflict(f"at most {MAX_MODELS} models can be saved; remove some first")
    return connection_id


def put_model(
    connection: Connection, owner: str, connection_id: str, provider: str, model: SavedModelRow, now: datetime
) -> None:
    """Add a model to a connection, or replace its settings. A name that is taken gets the provider as a prefix."""
    same = (models.c.owner == owner, models.c.connection_id == connection_id, models.c.model == model.model)
    if connection.execute(update(models).where(*same), {"settings": dict(model.settings)}).rowcount:
        return
    row = {"connection_id": connection_id, "model": model.model, "created_at": now, "settings": dict(model.settings)}
    for name in (model.name, f"{provider}/{model.name}", f"{connection_id}/{model.name}"):
        if insert_new(connection, models, owner, {**row, "name": to_key(name)}):
            return


def insert_new(connection: Connection, table: Table, owner: str, row: Mapping[str, Any]) -> bool:
    """Insert a row of an owner, and return whether there was none with its keys, also in another transaction."""
    build = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    return connection.execute(build(table).values({"owner": owner, **row}).on_conflict_do_nothing()).rowcount == 1


def replace_key(connection: Connection, owner: str, connection_id: str, sealed: bytes, now: datetime) -> None:
    """Replace the key of a connection, or raise `NotFound`."""
    mine = (connections.c.owner == owner, connections.c.connection_id == connection_id)
    if not connection.execute(update(connections).where(*mine), {"sealed": sealed, "updated_at": now}).rowcount:
        raise NotFound(f"no model connection {connection_id!r}")


def delete_connection(connection: Connection, owner: str, connection_id: str) -> None:
    """Delete a connection with its key and models, or raise `NotFound`."""
    mine = (connections.c.owner == owner, connections.c.connection_id == connection_id)
    if not connection.execute(delete(connections).where(*mine)).rowcount:
        raise NotFound(f"no model connection {connection_id!r}")
    connection.execute(delete(models).where(models.c.owner == owner, models.c.connection_id == connection_id))


def delete_saved_model(connection: Connection, owner: str, name: str) -> None:
    """Delete a model, and its connection with the key if that was the last one, or raise `NotFound`."""
    mine = (models.c.owner == owner, models.c.name == name)
    connection_id = connection.execute(select(models.c.connection_id).where(*mine)).scalar()
    if connection_id is None:
        raise NotFound(f"no saved model {name!r}")
    connection.execute(delete(models).where(*mine))
    rest = select(models.c.name).where(models.c.owner == owner, models.c.connection_id == connection_id)
    if connection.execute(rest.limit(1)).scalar() is None:
        delete_connection(connection, owner, connection_id)
