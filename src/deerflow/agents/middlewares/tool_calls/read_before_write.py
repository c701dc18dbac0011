"""Read before write: prevents changes to files that the model has not seen in their current version."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.replies import AsyncToolHandler, ToolHandler
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import FileProblem

READ, WRITE, REPLACE = "read_file", "write_file", "str_replace"
SEEN = "seen_file"
"""Where the result of a tool notes which file the model then knew, and its hash."""
UNSEEN = "Error: {path} exists and you have not read it. Read it with `read_file` first, then change it."
CHANGED = "Error: {path} has changed since you last read it. Read it again with `read_file`, then change it."

Result = ToolMessage | Command[Any]


class ReadBeforeWriteMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Records reads, and refuses to overwrite or edit unread files. Only applies to files of the run."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        # Files of a run can be had only where one can wait for them.
        return handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        path = _path_in(request.tool_call)
        name = request.tool_call["name"]
        if name not in (READ, WRITE, REPLACE) or path is None or find_run_context(request.runtime.context) is None:
            return await handler(request)
        if name != READ and not _only_adds(request) and (refusal := await _refusal(request, path)):
            return ToolMessage(refusal, tool_call_id=request.tool_call["id"], name=name, status="error")
        result = await handler(request)
        if _failed(result) or _only_adds(request):
            return result
        return _noting(result, path, await _hash(request, path))


async def _refusal(request: ToolCallRequest, path: str) -> str | None:
    """Return why the file must not be changed now, for the model."""
    now = await _hash(request, path)
    if now is None:  # a new file
        return None
    seen = _seen(request.state["messages"], path)
    if not seen:
        return UNSEEN.format(path=path)
    return None if now in seen or _is_one_of_several(request, path) else CHANGED.format(path=path)


async def _hash(request: ToolCallRequest, path: str) -> str | None:
    """Return the hash of a file, or None if it does not exist or is not in the thread."""
    run = find_run_context(request.runtime.context)
    if run is None:
        return None
    try:
        return sha256(await run.files.read(path)).hexdigest()
    except FileProblem:
        return None


def _seen(messages: Sequence[BaseMessage], path: str) -> set[str]:
    """Return the hashes under which the model has seen the file; concurrent calls record them in any order."""
    notes = (message.additional_kwargs.get(SEEN) for message in messages)
    return {note["hash"] for note in notes if note and note["path"] == path}


def _is_one_of_several(request: ToolCallRequest, path: str) -> bool:
    """Return whether the call replaces text while other calls of the same reply change the file too."""
    calls = getattr(request.state["messages"][-1], "tool_calls", ())
    changes = [call for call in calls if call["name"] in (WRITE, REPLACE) and _path_in(call) == path]
    return request.tool_call["name"] == REPLACE and len(changes) > 1


def _noting(result: Result, path: str, hash_: str | None) -> Result:
    if not isinstance(result, ToolMessage) or hash_ is None:
        return result
    notes = {**result.additional_kwargs, SEEN: {"path": path, "hash": hash_}}
    return result.model_copy(update={"additional_kwargs": notes})


def _path_in(call: ToolCall) -> str | None:
    """Return the normalized path of a call."""
    path = call["args"].get("path")
    return str(PurePosixPath(path)) if isinstance(path, str) else None


def _only_adds(request: ToolCallRequest) -> bool:
    return request.tool_call["name"] == WRITE and bool(request.tool_call["args"].get("append"))


def _failed(result: Result) -> bool:
    """Return whether a sandbox tool reported an error as text."""
    return isinstance(result, ToolMessage) and (result.status == "error" or result.text.startswith("Error:"))
