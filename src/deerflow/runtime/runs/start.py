"""Start of a run, or its continuation after the process died."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START
from langgraph.types import Command, StateSnapshot

from deerflow.agents.spec import AgentGraph
from deerflow.domain.runs import NodeNames, RunRequest
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.runtime.journal.state_diff import INTERRUPT, StateDiff
from deerflow.runtime.runs.job import Job

GraphInput = Command[Any] | dict[str, list[BaseMessage]] | None


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Input of the graph, and the state that its first step is compared with."""

    input: GraphInput
    state: StateDiff
    checkpoint_id: str | None = None
    """Checkpoint to start from, if not the latest."""
    found: Mapping[str, Any] | None = None
    """State of an earlier attempt, which readers may not know yet."""
    is_done: bool = False
    """Whether the run is complete and only its end has to be recorded."""


async def find_start(graph: AgentGraph, config: RunnableConfig, job: Job) -> StartPoint:
    """Return the start of a run; for a resumed one, its last checkpoint."""
    request = job.request
    fresh = initial_input(job)
    if job.past is None and request.checkpoint_id is None and request.command is None:
        return StartPoint(fresh, StateDiff([message.id or "" for message in job.messages]))
    snapshot = await graph.aget_state(config)
    if job.past is None:
        return StartPoint(fresh, StateDiff.from_state(snapshot.values), request.checkpoint_id)
    state = StateDiff.from_log(job.past.known, snapshot.values)
    if (snapshot.metadata or {}).get(RUN_KEY) != job.run.run_id:  # it died before its first step
        return StartPoint(fresh, state, request.checkpoint_id)
    asks = {INTERRUPT: snapshot.interrupts} if snapshot.interrupts else {}
    # `next` is not enough: it omits a step whose result was stored but not yet applied.
    halts = not snapshot.tasks or bool(asks) or await is_at_breakpoint(graph, request, snapshot)
    return StartPoint(None, state, found={**snapshot.values, **asks}, is_done=halts)


def initial_input(job: Job) -> GraphInput:
    """Return the input of the graph for a new run."""
    request = job.request
    if request.resume is not None:
        return Command(resume=request.resume.answer)
    if request.command is not None:
        return Command(update=dict(request.command.update) or None, goto=list(request.command.goto))
    return None if request.goes_on else {"messages": list(job.messages)}


async def is_at_breakpoint(graph: AgentGraph, request: RunRequest, snapshot: StateSnapshot) -> bool:
    """Return whether the run has to stop here: before one of the next steps, or after the last one."""
    if matches_any(request.interrupt_before, snapshot.next):
        return True
    before, source = snapshot.parent_config, (snapshot.metadata or {}).get("source")
    if not request.interrupt_after or before is None or source != "loop":  # no step has led here
        return False
    taken = (await graph.aget_state(before)).tasks
    return matches_any(request.interrupt_after, [task.name for task in taken])


def matches_any(wanted: NodeNames, steps: Sequence[str]) -> bool:
    """Return whether one of the steps is a requested breakpoint; LangGraph's input step never is."""
    return any(step != START and (wanted == "*" or step in wanted) for step in steps)
