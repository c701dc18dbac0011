"""Tool calls: never executed twice, no blind overwriting of files, and large results moved to a file."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.replies import AsyncToolHandler, ToolHandler
from deerflow.agent_support.thread_state import ThreadState
from deerflow.config.sections.tools import ToolOutputConfig
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import OUTPUTS
from deerflow.domain.tools import CHANGES_FILES, READ_ONLY, RESUMABLE, LedgerCall, OutcomeUnknown, ToolLedger
from deerflow.guardrails.call_context import COMMAND_TOOLS, EgressCapability

FOLDER = f"{OUTPUTS}/.tool-results"
CUT = "[… {} characters left out …]"

Result = ToolMessage | Command[Any]


class ToolOutputMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Limits every tool result before it is added to the conversation."""

    def __init__(self, settings: ToolOutputConfig) -> None:
        super().__init__()
        self._settings = settings
        self._words = Template(Path(__file__).with_name("tool_output.md").read_text(encoding="utf-8").strip())

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        # Files of a run can be had only where one can wait for them.
        return _with_messages(handler(request), self._cut)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        result = await handler(request)
        written = {message.tool_call_id: await self._externalized(message, request) for message in _messages(result)}
        return _with_messages(result, lambda message: written[message.tool_call_id])

    async def _externalized(self, message: ToolMessage, request: ToolCallRequest) -> ToolMessage:
        """Return `message`, or its beginning and end if the rest was moved to a file."""
        text = message.text
        name = request.tool_call["name"]
        if len(text) <= self._settings.tool_overrides.get(name, self._settings.externalize_min_chars):
            return message
        run = find_run_context(request.runtime.context)
        if not self._is_ours(message, name) or run is None:
            return self._cut(message)
        path = f"{FOLDER}/{_file_name(name, message.tool_call_id)}"
        try:
            await run.files.write(path, text.encode("utf-8", "replace"))
        except FileProblem:
            return self._cut(message)
        return _saying(message, self._preview(text, path))

    def _is_ours(self, message: ToolMessage, name: str) -> bool:
        """Return whether the result is text and the tool does not limit its size itself."""
        is_text = isinstance(message.content, str) or all(
            isinstance(block, str) or block.get("type") == "text" for block in message.content
        )
        return self._settings.enabled and is_text and name not in self._settings.exempt_tools

    def _preview(self, text: str, path: str) -> str:
        head, tail = _ends(text, self._settings.preview_head_chars, self._settings.preview_tail_chars)
        hidden = len(text) - len(head) - len(tail)
        return self._words.substitute(size=len(text), path=path, head=head, hidden=hidden, tail=tail)

    def _cut(self, message: ToolMessage) -> ToolMessage:
        """Return `message` without its middle if it is too large to keep even without a file."""
        text = message.text
        if len(text) <= self._settings.fallback_max_chars or not self._is_ours(message, message.name or ""):
            return message
        head, tail = _ends(text, self._settings.fallback_head_chars, self._settings.fallback_tail_chars)
        return _saying(message, f"{head}\n{CUT.format(len(text) - len(head) - len(tail))}\n{tail}")


def _messages(result: Result) -> list[ToolMessage]:
    if isinstance(result, ToolMessage):
        return [result]
    update = result.update if isinstance(result.update, dict) else {}
    return [message for message in update.get("messages", ()) if isinstance(message, ToolMessage)]


def _with_messages(result: Result, change: Callable[[ToolMessage], ToolMessage]) -> Result:
    """Return `result` with other messages."""
    if isinstance(result, ToolMessage):
        return change(result)
    if not _messages(result):
        return result
    update: dict[str, Any] = dict(result.update)  # type: ignore[arg-type]
    changed = [change(message) if isinstance(message, ToolMessage) else message for message in update["messages"]]
    return replace(result, update={**update, "messages": changed})


def _saying(message: ToolMessage, text: str) -> ToolMessage:
    return message.model_copy(update={"content": text})


def _ends(text: str, head: int, tail: int) -> tuple[str, str]:
    return text[:head], text[len(text) - tail :] if tail else ""


def _file_name(tool: str, call_id: str) -> str:
    """Return a unique name that contains the tool name."""
    safe = "".join(character if character.isalnum() or character in "-_" else "_" for character in tool)
    return f"{safe[:40]}-{sha256(call_id.encode()).hexdigest()[:12]}.txt"


READ, WRITE, REPLACE = "read_file", "write_file", "str_replace"
SEEN = "seen_file"
"""Where the result of a tool notes which file the model then knew, and its hash."""
UNSEEN = "Error: {path} exists and you have not read it. Read it with `read_file` first, then change it."
CHANGED = "Error: {path} has changed since you last read it. Read it again with `read_file`, then change it."


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


HARMLESS = frozenset({"write_todos", "ask_clarification"})
"""Tools of libraries that change nothing but the thread's own state."""
UNKNOWN = (
    "Error: the server stopped while {tool} was at work, and how far it came is not known: it may have done all, "
    "some or nothing of it. Check before you do it again."
)


class ToolLedgerMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Writes down each call that changes something before it is made, and its outcome after.

    When a run is begun again after its process died, a call with an outcome is not made again, and one without is said
    to be unknown. Tools that only read are simply used again, and some go on by themselves with what they had begun.
    """

    def __init__(self, reach: EgressCapability) -> None:
        super().__init__()
        self._reach = reach

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        # A ledger can be kept only where one can wait for it.
        return handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        run, call_id = find_run_context(request.runtime.context), request.tool_call["id"]
        if run is None or run.ledger is None or call_id is None:
            return await handler(request)
        name = request.tool_call["name"]
        call = LedgerCall(call_id, find_calling_message(request.state.get("messages", ()), call_id), name)
        try:
            # Asked also for what changes nothing or does not exist: settings may have changed since the call was made.
            known = run.ledger.find_outcome(call)
        except OutcomeUnknown:
            return await self._go_on(request, handler, run.ledger, call)
        if isinstance(known, ToolMessage | Command):
            return known
        if is_read_only(request.tool):
            result = await measure_call(request, handler, run.ledger, call)
        else:
            call = replace(call, reaches_out=not self._changes_only_files(request.tool))
            await run.ledger.begin(call)
            result = await measure_call(request, handler, run.ledger, call)
            await run.ledger.end(call, result)
        await self._audit(request, run, result)
        return result

    async def _audit(self, request: ToolCallRequest, run: RunContext, result: Result) -> None:
        """Record the outcome of a call in the audit log if it may have reached outside of the sandbox."""
        traits = self._reach.classify(request.tool, request.tool_call["name"])
        if run.audit is None or request.tool is None or not traits.reaches_out:
            return
        has_failed = any(message.status == "error" for message in _messages(result))
        await run.audit.record_call(request.tool.name, traits.server, has_failed=has_failed)

    def _changes_only_files(self, tool: BaseTool | None) -> bool:
        """Return whether a tool changes nothing but files of the sandbox, as do commands without network."""
        if tool is None:
            return False
        is_confined = tool.name in COMMAND_TOOLS and not self._reach.classify(tool, tool.name).reaches_out
        return is_confined or bool((tool.metadata or {}).get(CHANGES_FILES))

    async def _go_on(
        self, request: ToolCallRequest, handler: AsyncToolHandler[Result], ledger: ToolLedger, call: LedgerCall
    ) -> Result:
        """Return the result of a call that began before the process died, if there is one."""
        unknown = UNKNOWN.format(tool=call.tool)
        if not resumes_itself(request.tool):
            return ToolMessage(unknown, tool_call_id=call.id, name=call.tool, status="error")
        result = await measure_call(request, handler, ledger, call)
        if isinstance(result, ToolMessage) and result.status == "error" and not result.additional_kwargs:
            # It was not even made again, as with a kind of subagent that is gone, so it could not say what it had done.
            result = result.model_copy(update={"content": f"{result.text}\n{unknown}"})
        await ledger.end(call, result)
        return result


async def measure_call(
    request: ToolCallRequest, handler: AsyncToolHandler[Result], ledger: ToolLedger, call: LedgerCall
) -> Result:
    """Make a call and record its duration, without the time of an approval."""
    started_at = time.monotonic()
    result = await handler(request)
    ledger.note_duration(call, time.monotonic() - started_at)
    return result


def find_calling_message(messages: Sequence[BaseMessage], call_id: str) -> str | None:
    """Return the latest message with that call id."""
    replies = (message for message in reversed(messages) if isinstance(message, AIMessage))
    return next((reply.id for reply in replies if any(call["id"] == call_id for call in reply.tool_calls)), None)


def is_read_only(tool: BaseTool | None) -> bool:
    """Return whether a tool can be called again without harm; an unknown tool can."""
    return tool is None or tool.name in HARMLESS or bool((tool.metadata or {}).get(READ_ONLY))


def resumes_itself(tool: BaseTool | None) -> bool:
    """Return whether a tool can continue a call that began before."""
    return tool is not None and bool((tool.metadata or {}).get(RESUMABLE))
