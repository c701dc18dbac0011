"""What clients keep beside threads, in the database. The owner is part of every query."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, select

from deerflow.domain.store import Namespace, StoredItem
from deerflow.persistence.matching import holds
from deerflow.persistence.tables import store_items as items


def put_item(connection: Connection, owner: str, namespace: Namespace, key: str, value: Mapping[str, object]) -> None:
    """Keep a value, in place of what was there."""
    now = datetime.now(UTC)
    content = {"value": dict(value), "updated_at": now}
    row = {"owner": owner, "namespace": joined(namespace), "key": key, "created_at": now, **content}
    # Either database has a statement of its own for this, and loading the other's takes megabytes for nothing.
    insert = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert
    kept = insert(items).values(row).on_conflict_do_update(index_elements=items.primary_key, set_=content)
    connection.execute(kept)


def get_item(connection: Connection, owner: str, namespace: Namespace, key: str) -> StoredItem | None:
    """What is kept under `key`."""
    row = connection.execute(select(items).where(*place(owner, namespace, key))).first()
    return to_item(row) if row else None


def delete_item(connection: Connection, owner: str, namespace: Namespace, key: str) -> None:
    """Forget what is kept under `key`, if anything is."""
    connection.execute(delete(items).where(*place(owner, namespace, key)))


def search_items(
    connection: Connection, owner: str, prefix: Namespace, wanted: Mapping[str, object], limit: int, offset: int
) -> Sequence[StoredItem]:
    """What is kept in `prefix` and the namespaces in it and has the values `wanted`, in the order it came."""
    query = select(items).where(items.c.owner == owner, *inside(prefix), *holds(items.c.value, wanted))
    ordered = query.order_by(items.c.created_at, items.c.namespace, items.c.key)
    return [to_item(row) for row in connection.execute(ordered.limit(limit).offset(offset))]


def list_namespaces(connection: Connection, owner: str, prefix: Namespace) -> Sequence[Namespace]:
    """The namespaces in `prefix` that hold something, by name."""
    query = select(items.c.namespace).distinct().where(items.c.owner == owner, *inside(prefix))
    return [tuple(name.split(".")) for name in connection.execute(query.order_by(items.c.namespace)).scalars()]


def place(owner: str, namespace: Namespace, key: str) -> tuple[ColumnElement[bool], ...]:
    """What holds for one item."""
    return items.c.owner == owner, items.c.namespace == joined(namespace), items.c.key == key


def inside(prefix: Namespace) -> list[ColumnElement[bool]]:
    """What holds for items in `prefix` or in a namespace in it."""
    if not prefix:
        return []
    name = joined(prefix)
    return [(items.c.namespace == name) | items.c.namespace.startswith(f"{name}.", autoescape=True)]


def joined(namespace: Namespace) -> str:
    """A namespace as the table holds it."""
    return ".".join(namespace)


def to_item(row: Row[Any]) -> StoredItem:
    """A row in the words of the domain."""
    return StoredItem(tuple(row.namespace.split(".")), row.key, row.value, row.created_at, row.updated_at)
