"""A tool that fails tells the model so, and the run goes on."""

from difflib import get_close_matches
from typing import Any, TypeAlias

from langchain.agents.middleware import ToolErrorMiddleware
from langchain_core.messages import ToolMessage
from langgraph.errors import is_invalid_resume
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.replies import RunTool, RunToolAsync
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.errors import DeerFlowError

Result: TypeAlias = ToolMessage | Command[Any]

MAX_DETAIL = 500
NEAR_NAMES = 3
# How LangGraph begins and ends what it says about arguments that do not fit, and about tools that do not exist.
INVOCATION_ERROR = "Error invoking tool "
ERROR_FOLLOWS = " with error:\n"
FIX_AND_TRY_AGAIN = "\n Please fix the error and try again."
UNKNOWN_TOOL = "is not a valid tool, try one of ["


class ToolErrorHandlingMiddleware(ToolErrorMiddleware[Any, RunContext]):
    """Answers each failed call with the tool, the error and what to try; what steers the graph passes."""

    trace_policy: Any = None  # none of its own, so that it can be one with its neighbours

    def __init__(self) -> None:
        super().__init__(explain)

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Result]) -> Result:
        return reworded(request, super().wrap_tool_call(request, handler))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Result]) -> Result:
        return reworded(request, await super().awrap_tool_call(request, handler))


def explain(error: Exception, request: ToolCallRequest) -> str | None:
    """What the model is told about `error`; None for what is not the model's to mend."""
    if is_invalid_resume(error):
        return None
    run = run_in(request.runtime.context)
    said = run.hide(str(error)) if run is not None else str(error)
    detail = clip(said.strip()) or "no explanation given"
    failed = f"Error: {request.tool_call['name']} failed with {type(error).__name__}: {detail}"
    if isinstance(error, DeerFlowError):  # says itself what to try
        return failed
    return f"{failed}\nTry other arguments or another tool, or go on with what you have."


def reworded(request: ToolCallRequest, result: Result) -> Result:
    """`result`, where LangGraph's own words for a call that was not made are replaced by shorter ones."""
    if not isinstance(result, ToolMessage) or result.status != "error" or not isinstance(result.content, str):
        return result
    text, name = result.content, request.tool_call["name"]
    if request.tool is None and UNKNOWN_TOOL in text:
        known = [tool.name for tool in request.runtime.tools]
        return result.model_copy(update={"content": unknown_tool(name, known)})
    if text.startswith(INVOCATION_ERROR) and ERROR_FOLLOWS in text:
        # It repeats the arguments, which may be a whole file.
        wrong = text.rpartition(ERROR_FOLLOWS)[2].removesuffix(FIX_AND_TRY_AGAIN).strip()
        content = (
            f"Error: {name} was not called, its arguments do not fit: {clip(wrong)}\nCall it again with these fixed."
        )
        return result.model_copy(update={"content": content})
    return result


def unknown_tool(name: str, known: list[str]) -> str:
    """What the model is told about a tool that does not exist."""
    if not known:
        return f"Error: there is no tool {clip(name)!r}, nor any other. Answer without tools."
    near = get_close_matches(name, known, NEAR_NAMES, cutoff=0.5)
    if near:
        return f"Error: there is no tool {clip(name)!r}. Did you mean {' or '.join(near)}?"
    return f"Error: there is no tool {clip(name)!r}. Use one of those you were given, or answer without tools."


def clip(text: str) -> str:
    """The beginning of `text`, which says most."""
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 1]}…"
