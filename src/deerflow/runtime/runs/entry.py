"""Where a run begins, or goes on after its process died."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START
from langgraph.types import Command, StateSnapshot

from deerflow.agents.graph import AgentGraph
from deerflow.domain.runs import Nodes, RunRequest
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.runtime.changes import INTERRUPT, StateDiff
from deerflow.runtime.runs.job import Job

GraphInput = Command[Any] | dict[str, list[BaseMessage]] | None


@dataclass(frozen=True, slots=True)
class Entry:
    """What the graph is given, and what its first state is compared with."""

    input: GraphInput
    state: StateDiff
    checkpoint_id: str | None = None
    """Where to begin, if not where the thread stands."""
    found: Mapping[str, Any] | None = None
    """The state an earlier attempt came to, which readers may not know yet."""
    is_done: bool = False
    """Whether nothing is left to do but to say so."""


async def find_entry(graph: AgentGraph, config: RunnableConfig, job: Job) -> Entry:
    """The beginning of a run; for one that was begun before, the last step that was kept."""
    request = job.request
    fresh = fresh_input(job)
    if job.past is None and request.checkpoint_id is None and request.command is None:
        return Entry(fresh, StateDiff([message.id or "" for message in job.messages]))
    snapshot = await graph.aget_state(config)
    if job.past is None:
        return Entry(fresh, StateDiff.from_state(snapshot.values), request.checkpoint_id)
    state = StateDiff.from_log(job.past.known, snapshot.values)
    if (snapshot.metadata or {}).get(RUN_KEY) != job.run.run_id:  # it died before its first step
        return Entry(fresh, state, request.checkpoint_id)
    asks = {INTERRUPT: snapshot.interrupts} if snapshot.interrupts else {}
    # Not `next` alone: it leaves out a step whose result was kept but not yet taken in.
    halts = not snapshot.tasks or bool(asks) or await has_halted(graph, request, snapshot)
    return Entry(None, state, found={**snapshot.values, **asks}, is_done=halts)


def fresh_input(job: Job) -> GraphInput:
    """What the graph is given when the run is first begun."""
    request = job.request
    if request.resume is not None:
        return Command(resume=request.resume.answer)
    if request.command is not None:
        return Command(update=dict(request.command.update) or None, goto=list(request.command.goto))
    return None if request.goes_on else {"messages": list(job.messages)}


async def has_halted(graph: AgentGraph, request: RunRequest, snapshot: StateSnapshot) -> bool:
    """Whether the run was to stop here: before one of the steps that follow, or after one that led here."""
    if any_of(request.interrupt_before, snapshot.next):
        return True
    before, source = snapshot.parent_config, (snapshot.metadata or {}).get("source")
    if not request.interrupt_after or before is None or source != "loop":  # no step has led here
        return False
    taken = (await graph.aget_state(before)).tasks
    return any_of(request.interrupt_after, [task.name for task in taken])


def any_of(wanted: Nodes, steps: Sequence[str]) -> bool:
    """Whether one of the steps is wanted; the one that takes the input in is LangGraph's own business."""
    return any(step != START and (wanted == "*" or step in wanted) for step in steps)
