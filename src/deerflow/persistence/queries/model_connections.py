"""Rows of saved connections to model providers. Every query is restricted to the rows of one owner."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import new_id
from deerflow.persistence.encryption import DecryptionError, TokenCipher
from deerflow.persistence.tables import insert_or_ignore, to_key
from deerflow.persistence.tables import model_connections as connections
from deerflow.persistence.tables import saved_models as models

logger = logging.getLogger(__name__)

EMBEDDING_OWNER = "~embedding"
"""Owner of the connection to the embedding model, which belongs to the server; not a valid user id."""
SHARED = "shared"
"""Setting of models that all users may use."""
SAVED_BY_ADMIN = "saved_by_admin"
"""Setting of models that may be in private networks."""
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

    @property
    def is_shared(self) -> bool:
        """True if all users may use the models."""
        return any(model.settings.get(SHARED) for model in self.models)


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
    owned = (models.c.owner == owner, models.c.connection_id == connection_id)
    is_shared = any(row.settings.get(SHARED) for row in connection.execute(select(models.c.settings).where(*owned)))
    for model in added:
        settings = {**model.settings, SHARED: True} if is_shared else model.settings
        put_model(connection, owner, connection_id, provider, replace(model, settings=settings), now)
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
    return insert_or_ignore(connection, table, {"owner": owner, **row}) == 1


def replace_key(connection: Connection, owner: str, connection_id: str, sealed: bytes, now: datetime) -> None:
    """Replace the key of a connection, or raise `NotFound`."""
    owned = (connections.c.owner == owner, connections.c.connection_id == connection_id)
    if not connection.execute(update(connections).where(*owned), {"sealed": sealed, "updated_at": now}).rowcount:
        raise NotFound(f"no model connection {connection_id!r}")


def share_connection(connection: Connection, owner: str, connection_id: str, is_shared: bool) -> None:
    """Let all users use the models of a connection, or no longer, or raise `NotFound`."""
    owned = (models.c.owner == owner, models.c.connection_id == connection_id)
    found = connection.execute(select(models.c.name, models.c.settings).where(*owned)).all()
    if not found:
        raise NotFound(f"no model connection {connection_id!r}")
    for row in found:
        changed = {**row.settings, SHARED: is_shared}
        connection.execute(update(models).where(*owned, models.c.name == row.name), {"settings": changed})


def delete_connection(connection: Connection, owner: str, connection_id: str) -> None:
    """Delete a connection with its key and models, or raise `NotFound`."""
    owned = (connections.c.owner == owner, connections.c.connection_id == connection_id)
    if not connection.execute(delete(connections).where(*owned)).rowcount:
        raise NotFound(f"no model connection {connection_id!r}")
    connection.execute(delete(models).where(models.c.owner == owner, models.c.connection_id == connection_id))


def delete_owner(connection: Connection, owner: str) -> None:
    """Delete all connections of an owner with their keys and models."""
    connection.execute(delete(models).where(models.c.owner == owner))
    connection.execute(delete(connections).where(connections.c.owner == owner))


def replace_owner(connection: Connection, owner: str, save: Callable[[Connection], str]) -> str:
    """Delete all connections of an owner, then save another one, and return its id."""
    delete_owner(connection, owner)
    return save(connection)


def delete_saved_model(connection: Connection, owner: str, name: str) -> None:
    """Delete a model, and its connection with the key if that was the last one, or raise `NotFound`."""
    owned = (models.c.owner == owner, models.c.name == name)
    connection_id = connection.execute(select(models.c.connection_id).where(*owned)).scalar()
    if connection_id is None:
        raise NotFound(f"no saved model {name!r}")
    connection.execute(delete(models).where(*owned))
    rest = select(models.c.name).where(models.c.owner == owner, models.c.connection_id == connection_id)
    if connection.execute(rest.limit(1)).scalar() is None:
        delete_connection(connection, owner, connection_id)


def decrypt_key(cipher: TokenCipher, row: ConnectionRow) -> str | None:
    """Return the key of a connection; None if it has none, or one that cannot be decrypted. Blocks."""
    if row.sealed is None:
        return None
    try:
        return cipher.decrypt(row.sealed, associated_data(row.owner, row.base_url)).decode()
    except DecryptionError as problem:
        logger.error("the key of model connection %s cannot be decrypted: %s", row.connection_id, problem)
        return None


def associated_data(owner: str, base_url: str) -> str:
    """Return the associated data of an encrypted key: it is useless for another user or address."""
    return f"model connection\0{owner}\0{base_url}"
