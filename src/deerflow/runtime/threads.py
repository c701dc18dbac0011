"""Threads: made, found, shown and deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.domain.ids import check_thread_id, new_id
from deerflow.domain.principal import Principal
from deerflow.domain.threads import ThreadRecord
from deerflow.persistence import threads as rows
from deerflow.persistence.database import Database
from deerflow.runtime.serialization import to_json


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What a thread's newest checkpoint holds. `values` is JSON."""

    values: bytes
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    created_at: str | None
    metadata: bytes


class Threads:
    """Every method sees only what belongs to `who`."""

    def __init__(self, database: Database, checkpointer: BaseCheckpointSaver[str]) -> None:
        self._database = database
        self._checkpointer = checkpointer

    async def create(
        self, who: Principal, thread_id: str | None, metadata: Mapping[str, object], *, may_exist: bool
    ) -> ThreadRecord:
        """Begin a thread, or return the one there is when it `may_exist`."""
        name = check_thread_id(thread_id or new_id())
        change = partial(rows.begin_thread, thread_id=name, owner=who.user_id, metadata=metadata, may_exist=may_exist)
        return await self._database.write(change)

    async def get(self, thread_id: str, who: Principal) -> ThreadRecord:
        """The thread, or `NotFound`."""
        return await self._database.read(partial(rows.find_thread, thread_id=thread_id, owner=who.user_id))

    async def search(self, who: Principal, limit: int, offset: int) -> Sequence[ThreadRecord]:
        """Threads, latest activity first."""
        return await self._database.read(partial(rows.search_threads, owner=who.user_id, limit=limit, offset=offset))

    async def update(self, thread_id: str, who: Principal, metadata: Mapping[str, object]) -> ThreadRecord:
        """Add to the thread's metadata."""
        change = partial(rows.merge_metadata, thread_id=thread_id, owner=who.user_id, metadata=metadata)
        return await self._database.write(change)

    async def delete(self, thread_id: str, who: Principal) -> None:
        """Remove the thread and all that belongs to it.

        Raises:
            Conflict: a run is under way.
        """
        await self._database.write(partial(rows.delete_idle_thread, thread_id=thread_id, owner=who.user_id))
        await self._checkpointer.adelete_thread(thread_id)

    async def state(self, thread_id: str, who: Principal) -> ThreadState:
        """What the thread holds now."""
        await self.get(thread_id, who)
        config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        found = await self._checkpointer.aget_tuple(config)
        if found is None:
            return ThreadState(b'{"messages":[]}', None, None, None, b"{}")
        shown = {key: value for key, value in found.checkpoint["channel_values"].items() if is_shown(key)}
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        return ThreadState(
            to_json({"messages": [], **shown}),
            found.checkpoint["id"],
            parent,
            found.checkpoint["ts"],
            to_json(found.metadata),
        )


def is_shown(channel: str) -> bool:
    """Whether a channel is the user's; the others are the graph's own bookkeeping."""
    return not channel.startswith(("__", "branch:"))
