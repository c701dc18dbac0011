"""Where a run begins, or goes on after its process died."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from deerflow.agents.factory import AgentGraph
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.runtime.changes import INTERRUPT, StateDiff
from deerflow.runtime.runs.job import Job


@dataclass(frozen=True, slots=True)
class Entry:
    """What the graph is given, and what its first state is compared with."""

    input: Command[Any] | dict[str, list[BaseMessage]] | None
    state: StateDiff
    found: Mapping[str, Any] | None = None
    """The state an earlier attempt came to, which readers may not know yet."""
    is_done: bool = False
    """Whether nothing is left to do but to say so."""


async def find_entry(graph: AgentGraph, config: RunnableConfig, job: Job) -> Entry:
    """The beginning of a run; for one that was begun before, the last step that was kept."""
    resume = job.request.resume
    fresh: Command[Any] | dict[str, list[BaseMessage]]
    fresh = Command(resume=resume.answer) if resume else {"messages": list(job.messages)}
    if job.past is None:
        return Entry(fresh, StateDiff([message.id or "" for message in job.messages]))
    snapshot = await graph.aget_state(config)
    state = StateDiff.from_log(job.past.known, snapshot.values)
    if (snapshot.metadata or {}).get(RUN_KEY) != job.run.run_id:  # it died before its first step
        return Entry(fresh, state)
    asks = {INTERRUPT: snapshot.interrupts} if snapshot.interrupts else {}
    return Entry(None, state, {**snapshot.values, **asks}, is_done=not snapshot.next or bool(asks))
