"""What a thread holds: now, after each step, and after somebody changed it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.errors import InvalidUpdateError
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from deerflow.agents.graph import AgentGraph
from deerflow.domain.errors import DeerFlowError, InvalidRequest, NotFound
from deerflow.domain.runs import AgentSpec
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.runtime.changes import INTERRUPT, Changes, StateDiff, is_shown
from deerflow.runtime.incoming import to_messages
from deerflow.runtime.serialization import to_json


class GraphSource(Protocol):
    """Gives the graph for a spec, ready made where possible, and one that only reads and mends state."""

    @property
    def state_graph(self) -> AgentGraph: ...
    def ready_graph(self, spec: AgentSpec) -> AgentGraph | None: ...
    def graph_for(self, spec: AgentSpec) -> AgentGraph: ...


@dataclass(frozen=True, slots=True)
class StateView:
    """What one of a thread's checkpoints holds. `values`, `tasks`, `metadata` and `interrupts` are JSON."""

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
    """A checkpoint somebody made, and what is different since the last."""

    checkpoint_id: str
    changes: Changes


@dataclass(frozen=True, slots=True)
class States:
    """Reads and writes checkpoints; whose they are is somebody else's business."""

    checkpointer: BaseCheckpointSaver[str]
    graphs: GraphSource

    async def at(self, thread_id: str, checkpoint_id: str | None = None) -> StateView:
        """What the thread held at a checkpoint, or holds now.

        Raises:
            NotFound: there is no such checkpoint.
        """
        graph = await self._graph()
        found = await graph.aget_state(config_of(thread_id, checkpoint_id))
        if checkpoint_id is not None and found.created_at is None:
            raise NotFound(f"no checkpoint {checkpoint_id!r} in thread {thread_id!r}")
        questions = found.interrupts or await open_questions(self.checkpointer, thread_id, checkpoint_id)
        return view(found, questions, graph.output_channels)

    async def history(
        self, thread_id: str, limit: int, before: str | None, metadata: Mapping[str, object], upto: str | None
    ) -> Sequence[StateView]:
        """What the thread held after each step, newest first: at checkpoint `upto` and before, and before `before`."""
        graph = await self._graph()
        end = config_of(thread_id, before) if before else None
        found = graph.aget_state_history(
            config_of(thread_id, upto), filter=dict(metadata) or None, before=end, limit=limit
        )
        return [view(snapshot, snapshot.interrupts, graph.output_channels) async for snapshot in found]

    async def update(
        self, thread_id: str, values: Mapping[str, object], as_node: str | None, checkpoint_id: str | None
    ) -> StateUpdate:
        """Change what the thread holds, as if one of the agent's steps had.

        Raises:
            InvalidRequest: there is no such value or step, or it is not clear which step is meant.
        """
        graph = await self._graph()
        if as_node is not None and as_node not in graph.nodes:
            raise InvalidRequest(f"as_node {as_node!r} is no step of the agent; choose from {', '.join(graph.nodes)}")
        before = await graph.aget_state(config_of(thread_id))
        try:
            made = await graph.aupdate_state(
                config_of(thread_id, checkpoint_id), checked(values, graph.output_channels), as_node
            )
        except InvalidUpdateError as problem:
            raise InvalidRequest(f"the state cannot be changed so: {str(problem).splitlines()[0]}") from problem
        after = await graph.aget_state(config_of(thread_id))
        changes = StateDiff.from_state(before.values).against(after.values)
        return StateUpdate(made["configurable"]["checkpoint_id"], changes)

    async def copy(self, thread_id: str, copy_id: str, upto: str | None = None) -> Changes:
        """Give another thread all checkpoints of this one, or those up to one of them; what it holds now."""
        found = [each async for each in self.checkpointer.alist(config_of(thread_id)) if not is_later(each, upto)]
        for each in reversed(found):
            where = each.config["configurable"]
            parent = (each.parent_config or {}).get("configurable", {}).get("checkpoint_id")
            config = in_namespace(copy_id, where.get("checkpoint_ns", ""), parent)
            # Undoing the run that made it must not reach the copy.
            metadata: Any = {key: value for key, value in each.metadata.items() if key not in (RUN_KEY, "thread_id")}
            versions = each.checkpoint["channel_versions"]
            made = await self.checkpointer.aput(config, each.checkpoint, metadata, versions)
            if each.checkpoint["id"] == upto:
                continue  # what was to come next is left behind
            for task_id in dict.fromkeys(task for task, _, _ in each.pending_writes or ()):
                writes = [(channel, value) for task, channel, value in each.pending_writes or () if task == task_id]
                await self.checkpointer.aput_writes(made, writes, task_id)
        held = (await self.graphs.state_graph.aget_state(config_of(copy_id))).values
        return StateDiff([message.id for message in held.get("messages", ())]).against(held)

    async def _graph(self) -> AgentGraph:
        """The agent's own graph, which knows its steps; without a model, one that can at least read."""
        try:
            ready = self.graphs.ready_graph(AgentSpec())
            return ready if ready is not None else await asyncio.to_thread(self.graphs.graph_for, AgentSpec())
        except DeerFlowError:
            return self.graphs.state_graph


def is_later(found: CheckpointTuple, upto: str | None) -> bool:
    """Whether a checkpoint was made after another: their ids count the time."""
    return upto is not None and found.checkpoint["id"] > upto


async def open_questions(
    checkpointer: BaseCheckpointSaver[str], thread_id: str, checkpoint_id: str | None = None
) -> Sequence[Interrupt]:
    """What a paused run asks. It stands beside the checkpoint, whichever graph paused there."""
    found = await checkpointer.aget_tuple(config_of(thread_id, checkpoint_id))
    writes = found.pending_writes or () if found else ()
    return [question for _, channel, value in writes if channel == INTERRUPT for question in value]


async def questions_by_task(checkpointer: BaseCheckpointSaver[str], thread_id: str) -> dict[str, Sequence[Interrupt]]:
    """What a paused run asks, by the step that asks it."""
    found = await checkpointer.aget_tuple(config_of(thread_id))
    writes = found.pending_writes or () if found else ()
    return {task: value for task, channel, value in writes if channel == INTERRUPT}


def config_of(thread_id: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """How LangGraph is told which thread is meant, and which of its checkpoints if not the newest."""
    at = {"checkpoint_id": checkpoint_id, "checkpoint_ns": ""} if checkpoint_id else {}
    return {"configurable": {"thread_id": thread_id, **at}}


def in_namespace(thread_id: str, namespace: str, checkpoint_id: str | None) -> RunnableConfig:
    """The checkpoint of a graph inside the graph."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def checked(values: Mapping[str, object], known: str | Sequence[str]) -> dict[str, Any]:
    """`values`, if a thread can hold them.

    Raises:
        InvalidRequest: it cannot.
    """
    unknown = [key for key in values if key not in known]
    if unknown:
        raise InvalidRequest(f"a thread holds no {unknown[0]!r}, but {', '.join(sorted(known))}")
    messages = values.get("messages")
    if messages is None:
        return dict(values)
    given: list[Any] = messages if isinstance(messages, list) else [messages]
    return {**values, "messages": to_messages(given) if given else []}


def view(found: StateSnapshot, questions: Sequence[Interrupt], known: str | Sequence[str]) -> StateView:
    """A state as readers see it."""
    shown = {key: value for key, value in found.values.items() if is_shown(key) and key in known}
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


def task_fields(task: PregelTask) -> dict[str, object]:
    """A step that is to be taken."""
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
