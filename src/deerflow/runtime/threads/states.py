"""Thread state: checkpoints, history and manual updates."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from deerflow.agents.spec import AgentGraph
from deerflow.domain.errors import DeerFlowError, InvalidRequest, NotFound
from deerflow.domain.runs import AgentSpec
from deerflow.domain.threads import HistoryMessage
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.messages import find_messages, mentions_address
from deerflow.persistence.queries.threads import MAX_FILTER_KEYS, read_title
from deerflow.runtime.journal.serialization import to_json
from deerflow.runtime.journal.state_diff import INTERRUPT, Changes, StateDiff, is_public
from deerflow.runtime.transcript import convert_values

if TYPE_CHECKING:
    from langgraph.types import Interrupt, PregelTask, StateSnapshot

FILTER_KEY = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
MAX_KEY_CHARS = 200


@dataclass(frozen=True, slots=True)
class JournalHistory:
    """Message history of one thread, including messages that left the model's context."""

    database: Database
    thread_id: str

    async def search(self, query: str, limit: int) -> Sequence[HistoryMessage]:
        """Return messages that contain all words of `query`, newest first."""
        words = query.lower().split()
        if not words or limit < 1:
            return []
        return await self.database.read(partial(find_messages, thread_id=self.thread_id, words=words, limit=limit))

    async def contains_url(self, address: str) -> bool:
        """Return whether a message of the thread contains a normalized URL."""
        return await self.database.read(partial(mentions_address, thread_id=self.thread_id, address=address))

    async def read_title(self) -> str | None:
        """Return the title of the thread, None when it has none."""
        return await self.database.read(partial(read_title, thread_id=self.thread_id))


class StateGraphs(Protocol):
    """Provider of agent graphs, and of a graph that only reads and repairs state."""

    @property
    def state_graph(self) -> AgentGraph: ...
    def get_cached_graph(self, spec: AgentSpec) -> "AgentGraph | None": ...
    def get_graph(self, spec: AgentSpec) -> AgentGraph: ...


@dataclass(frozen=True, slots=True)
class StateView:
    """State at one checkpoint. `values`, `tasks`, `metadata` and `interrupts` are JSON."""

    values: bytes
    next: Sequence[str]
    tasks: bytes
    interrupts: bytes
    metadata: bytes
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    created_at: str | None


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """Checkpoint of a manual update, and its changes."""

    checkpoint_id: str
    changes: Changes


@dataclass(frozen=True, slots=True)
class States:
    """Reads and writes checkpoints; callers check ownership."""

    checkpointer: BaseCheckpointSaver[str]
    graphs: StateGraphs

    async def at(self, thread_id: str, checkpoint_id: str | None = None, title: str | None = None) -> StateView:
        """Return the state at a checkpoint, or the current one; `title` replaces the title in it.

        Raises:
            NotFound: there is no such checkpoint.
        """
        graph = await self._graph()
        found = await graph.aget_state(checkpoint_config(thread_id, checkpoint_id))
        if checkpoint_id is not None and found.created_at is None:
            raise NotFound(f"no checkpoint {checkpoint_id!r} in thread {thread_id!r}")
        questions = found.interrupts or await pending_interrupts(self.checkpointer, thread_id, checkpoint_id)
        if title is not None and found.values:
            found = found._replace(values={**found.values, "title": title})
        return state_view(found, questions, graph.output_channels)

    async def history(
        self, thread_id: str, limit: int, before: str | None, metadata: Mapping[str, object], upto: str | None
    ) -> Sequence[StateView]:
        """Return the states after each step, newest first: at checkpoint `upto` and earlier, and before `before`.

        Raises:
            InvalidRequest: the metadata cannot be compared.
            NotFound: there is no such checkpoint.
        """
        wanted = check_filter(metadata)
        graph = await self._graph()
        end = checkpoint_config(thread_id, before) if before else None
        found = graph.aget_state_history(
            checkpoint_config(thread_id, upto), filter=wanted or None, before=end, limit=limit
        )
        return [state_view(snapshot, snapshot.interrupts, graph.output_channels) async for snapshot in found]

    async def update(
        self, thread_id: str, values: Mapping[str, object], as_node: str | None, checkpoint_id: str | None
    ) -> StateUpdate:
        """Update the state as one of the agent's steps would.

        Raises:
            InvalidRequest: the value or step does not exist, or the step is ambiguous.
        """
        graph = await self._graph()
        if as_node is not None and as_node not in graph.nodes:
            raise InvalidRequest(f"as_node {as_node!r} is no step of the agent; choose from {', '.join(graph.nodes)}")
        from langgraph.errors import InvalidUpdateError

        before = await graph.aget_state(checkpoint_config(thread_id))
        try:
            made = await graph.aupdate_state(
                checkpoint_config(thread_id, checkpoint_id), check_values(values, graph.output_channels), as_node
            )
        except InvalidUpdateError as problem:
            raise InvalidRequest(f"the state cannot be changed so: {str(problem).splitlines()[0]}") from problem
        after = await graph.aget_state(checkpoint_config(thread_id))
        changes = StateDiff.from_state(before.values).against(after.values)
        return StateUpdate(made["configurable"]["checkpoint_id"], changes)

    async def copy(self, thread_id: str, copy_id: str, upto: str | None = None) -> Changes:
        """Copy all checkpoints to another thread, or those up to one. Return its state."""
        found = [
            each
            async for each in self.checkpointer.alist(checkpoint_config(thread_id))
            if not is_later_checkpoint(each, upto)
        ]
        for each in reversed(found):
            where = each.config["configurable"]
            parent = (each.parent_config or {}).get("configurable", {}).get("checkpoint_id")
            config = namespace_config(copy_id, where.get("checkpoint_ns", ""), parent)
            # Rolling back the run that made it must not affect the copy.
            metadata: Any = {key: value for key, value in each.metadata.items() if key not in (RUN_KEY, "thread_id")}
            versions = each.checkpoint["channel_versions"]
            made = await self.checkpointer.aput(config, each.checkpoint, metadata, versions)
            if each.checkpoint["id"] == upto:
                continue  # what was to come next is left behind
            for task_id in dict.fromkeys(task for task, _, _ in each.pending_writes or ()):
                writes = [(channel, value) for task, channel, value in each.pending_writes or () if task == task_id]
                await self.checkpointer.aput_writes(made, writes, task_id)
        graph = await asyncio.to_thread(lambda: self.graphs.state_graph)
        held = (await graph.aget_state(checkpoint_config(copy_id))).values
        return StateDiff([message.id for message in held.get("messages", ())]).against(held)

    async def _graph(self) -> AgentGraph:
        """Return the graph of the agent, which knows its steps; without a model, one that only reads."""
        try:
            ready = self.graphs.get_cached_graph(AgentSpec())
            return ready if ready is not None else await asyncio.to_thread(self.graphs.get_graph, AgentSpec())
        except DeerFlowError:
            return await asyncio.to_thread(lambda: self.graphs.state_graph)


def is_later_checkpoint(found: CheckpointTuple, upto: str | None) -> bool:
    """Return whether a checkpoint is later than another: their ids are ordered by time."""
    return upto is not None and found.checkpoint["id"] > upto


async def pending_interrupts(
    checkpointer: BaseCheckpointSaver[str], thread_id: str, checkpoint_id: str | None = None
) -> "Sequence[Interrupt]":
    """Return the interrupts of a paused run. They are stored with the checkpoint, whichever graph paused there."""
    found = await checkpointer.aget_tuple(checkpoint_config(thread_id, checkpoint_id))
    writes = found.pending_writes or () if found else ()
    return [question for _, channel, value in writes if channel == INTERRUPT for question in value]


async def interrupts_by_task(
    checkpointer: BaseCheckpointSaver[str], thread_id: str
) -> "dict[str, Sequence[Interrupt]]":
    """Return the interrupts of a paused run by task."""
    found = await checkpointer.aget_tuple(checkpoint_config(thread_id))
    writes = found.pending_writes or () if found else ()
    return {task: value for task, channel, value in writes if channel == INTERRUPT}


def checkpoint_config(thread_id: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """Return the LangGraph config of a thread, and of a checkpoint if it is not the latest.

    Raises:
        NotFound: the id is one that no checkpoint can have.
    """
    if checkpoint_id and not is_comparable(checkpoint_id):
        raise NotFound(f"no checkpoint {checkpoint_id[:100]!r} in thread {thread_id!r}")
    at = {"checkpoint_id": checkpoint_id, "checkpoint_ns": ""} if checkpoint_id else {}
    return {"configurable": {"thread_id": thread_id, **at}}


def namespace_config(thread_id: str, namespace: str, checkpoint_id: str | None) -> RunnableConfig:
    """Return the LangGraph config of a subgraph's checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def check_filter(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Return the metadata to filter a history by, if every database can compare it.

    Raises:
        InvalidRequest: it cannot.
    """
    if len(metadata) > MAX_FILTER_KEYS:
        raise InvalidRequest(f"metadata: cannot filter by {len(metadata)} keys; use at most {MAX_FILTER_KEYS}")
    for key, value in metadata.items():
        if len(key) > MAX_KEY_CHARS or not FILTER_KEY.fullmatch(key):
            rule = f"use up to {MAX_KEY_CHARS} letters, digits, '_' and '-', with '.' between keys"
            raise InvalidRequest(f"metadata: cannot filter by key {key[:100]!r}; {rule}")
        if not is_comparable(value):
            raise InvalidRequest(
                f"metadata.{key}: cannot filter by a text with a null character or a number of more than 64 bits"
            )
    return dict(metadata)


def is_comparable(value: object) -> bool:
    """Return whether all databases can compare a value: no null character, no integer of more than 64 bits."""
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, Mapping):
        return all(is_comparable(key) and is_comparable(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(is_comparable, value))


def check_values(values: Mapping[str, object], known: str | Sequence[str]) -> dict[str, Any]:
    """Return `values` if they fit the state schema.

    Raises:
        InvalidRequest: they do not.
    """
    unknown = [key for key in values if key not in known]
    if unknown:
        raise InvalidRequest(f"a thread holds no {unknown[0]!r}, but {', '.join(sorted(known))}")
    return convert_values(values)


def state_view(found: "StateSnapshot", questions: "Sequence[Interrupt]", known: str | Sequence[str]) -> StateView:
    """Return a state as clients see it."""
    shown = {key: value for key, value in found.values.items() if is_public(key) and key in known}
    parent = found.parent_config or {}
    return StateView(
        values=to_json({**shown, "messages": found.values.get("messages", [])}),
        next=found.next,
        tasks=to_json([task_fields(task) for task in found.tasks]),
        interrupts=to_json(questions),
        metadata=to_json(found.metadata or {}),
        checkpoint_id=found.config["configurable"].get("checkpoint_id") if found.created_at else None,
        parent_checkpoint_id=parent.get("configurable", {}).get("checkpoint_id"),
        created_at=found.created_at,
    )


def task_fields(task: "PregelTask") -> dict[str, object]:
    """Return a pending task as JSON."""
    return {
        "id": task.id,
        "name": task.name,
        "path": task.path,
        "error": task.error,
        "interrupts": task.interrupts,
        "checkpoint": None,
        "state": None,
        "result": task.result,
    }
