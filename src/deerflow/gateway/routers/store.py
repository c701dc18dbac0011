"""/store: what clients keep beside threads"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain.store import StoredItem
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import shown_as

router = APIRouter(prefix="/store", tags=["store"])

Key = Annotated[str, Field(min_length=1, max_length=255)]


class PutItem(BaseModel):
    """Body of a request to keep something."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=shown_as({"namespace": ["notes"], "key": "first", "value": {"text": "Herons stand."}}),
    )

    namespace: list[str]
    key: Key
    value: dict[str, object]
    index: bool | list[str] | None = None


class DeleteItem(BaseModel):
    """Body of a request to forget something."""

    model_config = ConfigDict(json_schema_extra=shown_as({"namespace": ["notes"], "key": "first"}))

    namespace: list[str]
    key: Key


class SearchItems(BaseModel):
    """Body of a search. There is no index of meanings: `query` finds everything the rest does."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"namespace_prefix": ["notes"], "limit": 10}))

    namespace_prefix: list[str] = []
    filter: dict[str, object] = {}
    query: str | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0)] = 0
    refresh_ttl: bool | None = None


class ListNamespaces(BaseModel):
    """Body of a request for namespaces."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"prefix": ["notes"]}))

    prefix: list[str] = []
    suffix: list[str] = []
    max_depth: Annotated[int | None, Field(ge=1)] = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0)] = 0


class Item(BaseModel):
    """Something that is kept."""

    namespace: Sequence[str]
    key: str
    value: dict[str, object]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, item: StoredItem) -> "Item":
        return cls.model_validate(item, from_attributes=True)


class FoundItem(Item):
    """Something that was found."""

    score: None = None


class FoundItems(BaseModel):
    """What was found."""

    items: list[FoundItem]


class Namespaces(BaseModel):
    """The namespaces that hold something."""

    namespaces: list[Sequence[str]]


@router.put("/items", status_code=204)
async def put_item(body: PutItem, harness: TheHarness, who: Who) -> None:
    """Keep a value, in place of what was there."""
    await harness.store.put(who, body.namespace, body.key, body.value)


@router.get("/items")
async def get_item(
    key: Annotated[Key, Query(examples=["first"])],
    harness: TheHarness,
    who: Who,
    namespace: Annotated[str, Query(description="labels, with periods between", examples=["notes"])],
) -> Item | None:
    """What is kept under a key, or null."""
    found = await harness.store.get(who, namespace.split("."), key)
    return Item.of(found) if found else None


@router.delete("/items", status_code=204)
async def delete_item(body: DeleteItem, harness: TheHarness, who: Who) -> None:
    """Forget what is kept under a key."""
    await harness.store.delete(who, body.namespace, body.key)


@router.post("/items/search")
async def search_items(body: SearchItems, harness: TheHarness, who: Who) -> FoundItems:
    """What is kept in a namespace and those in it."""
    found = await harness.store.search(who, body.namespace_prefix, body.filter, body.limit, body.offset)
    return FoundItems(items=[FoundItem.model_validate(item, from_attributes=True) for item in found])


@router.post("/namespaces")
async def list_namespaces(body: ListNamespaces, harness: TheHarness, who: Who) -> Namespaces:
    """The namespaces that hold something."""
    found = await harness.store.namespaces(who, body.prefix, body.suffix, body.max_depth)
    return Namespaces(namespaces=list(found[body.offset : body.offset + body.limit]))
