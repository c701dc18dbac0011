"""What clients keep beside threads: small values under keys, each person's their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from deerflow.domain.principal import Principal
from deerflow.domain.store import Namespace, StoredItem, check_namespace
from deerflow.persistence import store as rows
from deerflow.persistence.database import Database


@dataclass(frozen=True, slots=True)
class Store:
    """Every method sees only what belongs to `who`."""

    database: Database

    async def put(self, who: Principal, namespace: Sequence[str], key: str, value: Mapping[str, object]) -> None:
        """Keep `value`, in place of what was there."""
        where = check_namespace(namespace)
        await self.database.write(partial(rows.put_item, owner=who.user_id, namespace=where, key=key, value=value))

    async def get(self, who: Principal, namespace: Sequence[str], key: str) -> StoredItem | None:
        """What is kept under `key`."""
        where = check_namespace(namespace)
        return await self.database.read(partial(rows.get_item, owner=who.user_id, namespace=where, key=key))

    async def delete(self, who: Principal, namespace: Sequence[str], key: str) -> None:
        """Forget what is kept under `key`, if anything is."""
        where = check_namespace(namespace)
        await self.database.write(partial(rows.delete_item, owner=who.user_id, namespace=where, key=key))

    async def search(
        self, who: Principal, prefix: Sequence[str], wanted: Mapping[str, object], limit: int, offset: int
    ) -> Sequence[StoredItem]:
        """What is kept in `prefix` and has the values `wanted`, in the order it came."""
        inside = check_namespace(prefix, may_be_empty=True)
        mine = partial(rows.search_items, owner=who.user_id, prefix=inside, wanted=wanted)
        return await self.database.read(partial(mine, limit=limit, offset=offset))

    async def namespaces(
        self, who: Principal, prefix: Sequence[str], suffix: Sequence[str], max_depth: int | None
    ) -> Sequence[Namespace]:
        """The namespaces that hold something, cut at `max_depth`, each once."""
        inside = check_namespace(prefix, may_be_empty=True)
        found = await self.database.read(partial(rows.list_namespaces, owner=who.user_id, prefix=inside))
        ending = [name for name in found if not suffix or name[-len(suffix) :] == tuple(suffix)]
        return list(dict.fromkeys(name[:max_depth] for name in ending))
