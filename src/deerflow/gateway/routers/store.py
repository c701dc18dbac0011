"""Store of the LangGraph API: key-value items of clients."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain.threads import StoredItem
from deerflow.gateway.dependencies import CurrentUser, HarnessDep
from deerflow.gateway.examples import with_examples
from deerflow.gateway.schemas.runs import NO_EFFECT

router = APIRouter(prefix="/store", tags=["store"])

Key = Annotated[str, Field(min_length=1, max_length=255)]


class PutItem(BaseModel):
    """Body of a request to store an item."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=with_examples({"namespace": ["notes"], "key": "first", "value": {"text": "Herons stand."}}),
    )

    namespace: list[str]
    key: Key
    value: dict[str, object]
    index: Annotated[bool | list[str] | None, NO_EFFECT] = None


class DeleteItem(BaseModel):
    """Body of a request to delete an item."""

    model_config = ConfigDict(json_schema_extra=with_examples({"namespace": ["notes"], "key": "first"}))

    namespace: list[str]
    key: Key


class SearchItems(BaseModel):
    """Body of a search."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=with_examples({"namespace_prefix": ["notes"], "limit": 10})
    )

    namespace_prefix: list[str] = []
    filter: dict[str, object] = {}
    query: Annotated[str | None, NO_EFFECT] = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0)] = 0
    refresh_ttl: Annotated[bool | None, NO_EFFECT] = None


class ListNamespaces(BaseModel):
    """Body of a request for namespaces."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"prefix": ["notes"]}))

    prefix: list[str] = []
    suffix: list[str] = []
    max_depth: Annotated[int | None, Field(ge=1)] = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0)] = 0


class Item(BaseModel):
    """Stored item."""

    namespace: Sequence[str]
    key: str
    value: dict[str, object]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_domain(cls, item: StoredItem) -> "Item":
        return cls.model_validate(item, from_attributes=True)


class FoundItem(Item):
    """Item found by a search."""

    score: None = None


class FoundItems(BaseModel):
    """Items found by a search."""

    items: list[FoundItem]


class Namespaces(BaseModel):
    """Namespaces that contain items."""

    namespaces: list[Sequence[str]]


@router.put("/items", status_code=204)
async def put_item(body: PutItem, harness: HarnessDep, user: CurrentUser) -> None:
    """Store a value and replace the previous one."""
    await harness.resources.store.put(user, body.namespace, body.key, body.value)


@router.get("/items")
async def get_item(
    key: Annotated[Key, Query(examples=["first"])],
    harness: HarnessDep,
    user: CurrentUser,
    namespace: Annotated[str, Query(description="Labels, separated by periods.", examples=["notes"])],
) -> Item | None:
    """Get the item with a key, or null."""
    found = await harness.resources.store.get(user, namespace.split("."), key)
    return Item.from_domain(found) if found else None


@router.delete("/items", status_code=204)
async def delete_item(body: DeleteItem, harness: HarnessDep, user: CurrentUser) -> None:
    """Delete an item."""
    await harness.resources.store.delete(user, body.namespace, body.key)


@router.post("/items/search")
async def search_items(body: SearchItems, harness: HarnessDep, user: CurrentUser) -> FoundItems:
    """Search the items of a namespace and those below it."""
    found = await harness.resources.store.search(user, body.namespace_prefix, body.filter, body.limit, body.offset)
    return FoundItems(items=[FoundItem.model_validate(item, from_attributes=True) for item in found])


@router.post("/namespaces")
async def list_namespaces(body: ListNamespaces, harness: HarnessDep, user: CurrentUser) -> Namespaces:
    """List the namespaces that contain items."""
    found = await harness.resources.store.list_namespaces(user, body.prefix, body.suffix, body.max_depth)
    return Namespaces(namespaces=list(found[body.offset : body.offset + body.limit]))
