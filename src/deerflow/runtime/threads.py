"""Threads: made, found, shown and deleted."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Interrupt, StateSnapshot

from deerflow.agents.factory import AgentGraph
from deerflow.domain.ids import check_thread_id, new_id
from deerflow.domain.principal import Principal
from deerflow.domain.threads import ThreadRecord
from deerflow.persistence import threads as rows
from deerflow.persistence.database import Database
from deerflow.persistence.events import all_changes
from deerflow.runtime.changes import INTERRUPT, DerivedState, is_shown
from deerflow.runtime.serialization import to_json


@dataclass(frozen=True, slots=True)
class StateView:
    """What a thread's newest checkpoint holds. `values`, `metadata` and `interrupts` are JSON."""

    values: bytes
    next: Sequence[str]
    interrupts: bytes
    metadata: bytes
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    created_at: str | None


class Threads:
    """Every method sees only what belongs to `who`."""

    def __init__(
        self,
        database: Database,
        checkpointer: BaseCheckpointSaver[str],
        graph: AgentGraph,
        forget: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """`graph` reads what `checkpointer` holds; `forget` ends what runs for a deleted thread, and its files."""
        self._database = database
        self._checkpointer = checkpointer
        self._graph = graph
        self._forget = forget

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
        await self._forget(thread_id, who.user_id)

    async def state(self, thread_id: str, who: Principal) -> StateView:
        """What the thread holds now."""
        await self.get(thread_id, who)
        found = await self._graph.aget_state(config_of(thread_id))
        return view(found, await open_questions(self._checkpointer, thread_id))

    async def messages(self, thread_id: str, who: Principal) -> bytes:
        """Everything said in the thread, also what the agent no longer has in view, as JSON."""
        await self.get(thread_id, who)
        said = DerivedState(keeps_removed=True)
        for changes in await self._database.read(partial(all_changes, thread_id=thread_id)):
            said.apply(changes)
        return said.to_json()

    async def history(self, thread_id: str, who: Principal, limit: int) -> Sequence[StateView]:
        """What the thread held after each step, newest first."""
        await self.get(thread_id, who)
        found = self._graph.aget_state_history(config_of(thread_id), limit=limit)
        return [view(snapshot, ()) async for snapshot in found]


async def open_questions(checkpointer: BaseCheckpointSaver[str], thread_id: str) -> Sequence[Interrupt]:
    """What a paused run asks. It stands beside the checkpoint, whichever graph paused there."""
    found = await checkpointer.aget_tuple(config_of(thread_id))
    writes = found.pending_writes or () if found else ()
    return [question for _, channel, value in writes if channel == INTERRUPT for question in value]


def config_of(thread_id: str) -> RunnableConfig:
    """How LangGraph is told which thread is meant."""
    return {"configurable": {"thread_id": thread_id}}


def view(found: StateSnapshot, questions: Sequence[Interrupt]) -> StateView:
    """A state as readers see it."""
    shown = {key: value for key, value in found.values.items() if is_shown(key)}
    parent = found.parent_config or {}
    return StateView(
        values=to_json({**shown, "messages": found.values.get("messages", [])}),
        next=found.next,
        interrupts=to_json(questions),
        metadata=to_json(found.metadata or {}),
        checkpoint_id=found.config["configurable"].get("checkpoint_id"),
        parent_checkpoint_id=parent.get("configurable", {}).get("checkpoint_id"),
        created_at=found.created_at,
    )
