"""Where a run begins, or goes on after its process died."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from deerflow.agents.factory import AgentGraph
from deerflow.domain.runs import RunRequest
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
    halts = not snapshot.tasks or bool(asks) or is_halted(request, snapshot.next)
    return Entry(None, state, found={**snapshot.values, **asks}, is_done=halts)


def fresh_input(job: Job) -> GraphInput:
    """What the graph is given when the run is first begun."""
    request = job.request
    if request.resume is not None:
        return Command(resume=request.resume.answer)
    if request.command is not None:
        return Command(update=dict(request.command.update) or None, goto=list(request.command.goto))
    return None if request.goes_on else {"messages": list(job.messages)}


def is_halted(request: RunRequest, following: tuple[str, ...]) -> bool:
    """Whether the run was to stop before one of the steps that follow."""
    wanted = request.interrupt_before
    return bool(following) if wanted == "*" else any(step in wanted for step in following)
