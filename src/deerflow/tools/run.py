"""The run a tool was called in."""

from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from deerflow.domain.context import RunContext, run_in
from deerflow.domain.errors import DeerFlowError


class NoRunContext(DeerFlowError):
    """A tool that needs the files or the owner of a run was used in a graph that has no run."""


def current_run(runtime: ToolRuntime[RunContext]) -> RunContext:
    """What the run may use.

    Raises:
        NoRunContext: The graph was invoked without `context=RunContext(…)`.
    """
    run = run_in(runtime.context)
    if run is None:
        raise NoRunContext("this tool works only inside a run; invoke the graph with context=RunContext(…)")
    return run


def answer(runtime: ToolRuntime[RunContext], text: str, **update: Any) -> Command[Any]:
    """What a tool says, together with what it changes in the state of the thread."""
    return Command(update={**update, "messages": [ToolMessage(text, tool_call_id=runtime.tool_call_id)]})
