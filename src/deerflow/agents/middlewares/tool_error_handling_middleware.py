"""Tool error handling: errors become tool messages and the run continues."""

from difflib import get_close_matches
from typing import Any, TypeAlias

from langchain.agents.middleware import ToolErrorMiddleware
from langchain_core.messages import ToolMessage
from langgraph.errors import is_invalid_resume
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.replies import AsyncToolHandler, ToolHandler
from deerflow.domain.context import RunContext, find_run_context
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
    """Answers each failed call with the tool, the error and a suggestion. Control-flow exceptions pass through."""

    trace_policy: Any = None  # none of its own, so that it can be one with its neighbours

    def __init__(self) -> None:
        super().__init__(error_text)

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        return shorten_error(request, super().wrap_tool_call(request, handler))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        return shorten_error(request, await super().awrap_tool_call(request, handler))


def error_text(error: Exception, request: ToolCallRequest) -> str | None:
    """Return the text about `error` for the model; None for errors that the model cannot fix."""
    if is_invalid_resume(error):
        return None
    run = find_run_context(request.runtime.context)
    said = run.redact(str(error)) if run is not None else str(error)
    detail = clip(said.strip()) or "no explanation given"
    failed = f"Error: {request.tool_call['name']} failed with {type(error).__name__}: {detail}"
    if isinstance(error, DeerFlowError):  # says itself what to try
        return failed
    return f"{failed}\nTry other arguments or another tool, or go on with what you have."


def shorten_error(request: ToolCallRequest, result: Result) -> Result:
    """Return `result` with a shorter text in place of LangGraph's own for calls that were not executed."""
    if not isinstance(result, ToolMessage) or result.status != "error" or not isinstance(result.content, str):
        return result
    text, name = result.content, request.tool_call["name"]
    if request.tool is None and UNKNOWN_TOOL in text:
        known = [tool.name for tool in request.runtime.tools]
        return result.model_copy(update={"content": unknown_tool_text(name, known)})
    if text.startswith(INVOCATION_ERROR) and ERROR_FOLLOWS in text:
        # It repeats the arguments, which may be a whole file.
        wrong = text.rpartition(ERROR_FOLLOWS)[2].removesuffix(FIX_AND_TRY_AGAIN).strip()
        content = (
            f"Error: {name} was not called, its arguments do not fit: {clip(wrong)}\nCall it again with these fixed."
        )
        return result.model_copy(update={"content": content})
    return result


def unknown_tool_text(name: str, known: list[str]) -> str:
    """Return the text about a tool that does not exist."""
    if not known:
        return f"Error: there is no tool {clip(name)!r}, nor any other. Answer without tools."
    near = get_close_matches(name, known, NEAR_NAMES, cutoff=0.5)
    if near:
        return f"Error: there is no tool {clip(name)!r}. Did you mean {' or '.join(near)}?"
    return f"Error: there is no tool {clip(name)!r}. Use one of those you were given, or answer without tools."


def clip(text: str) -> str:
    """Return the beginning of `text`."""
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 1]}…"
