"""Keeps large results of tools out of the conversation: they go to a file, and the model sees both ends."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.replies import RunTool, RunToolAsync
from deerflow.agents.thread_state import ThreadState
from deerflow.config.tool_output import ToolOutputConfig
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import OUTPUTS

FOLDER = f"{OUTPUTS}/.tool-results"
CUT = "[… {} characters left out …]"

Result = ToolMessage | Command[Any]


class ToolOutputMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Looks at every result of a tool before it becomes part of the conversation."""

    def __init__(self, settings: ToolOutputConfig) -> None:
        super().__init__()
        self._settings = settings
        self._words = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Result]) -> Result:
        # Files of a run can be had only where one can wait for them.
        return _with_messages(handler(request), self._cut)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Result]) -> Result:
        result = await handler(request)
        written = {message.tool_call_id: await self._externalized(message, request) for message in _messages(result)}
        return _with_messages(result, lambda message: written[message.tool_call_id])

    async def _externalized(self, message: ToolMessage, request: ToolCallRequest) -> ToolMessage:
        """`message`, or both its ends when it is large and the rest is in a file."""
        text = message.text
        name = request.tool_call["name"]
        if len(text) <= self._settings.tool_overrides.get(name, self._settings.externalize_min_chars):
            return message
        run = run_in(request.runtime.context)
        if not self._is_ours(message, name) or run is None:
            return self._cut(message)
        path = f"{FOLDER}/{_file_name(name, message.tool_call_id)}"
        try:
            await run.files.write(path, text.encode("utf-8", "replace"))
        except FileProblem:
            return self._cut(message)
        return _saying(message, self._preview(text, path))

    def _is_ours(self, message: ToolMessage, name: str) -> bool:
        """Whether the result is text and its tool does not look after its size itself."""
        is_text = isinstance(message.content, str) or all(
            isinstance(block, str) or block.get("type") == "text" for block in message.content
        )
        return self._settings.enabled and is_text and name not in self._settings.exempt_tools

    def _preview(self, text: str, path: str) -> str:
        head, tail = _ends(text, self._settings.preview_head_chars, self._settings.preview_tail_chars)
        hidden = len(text) - len(head) - len(tail)
        return self._words.substitute(size=len(text), path=path, head=head, hidden=hidden, tail=tail)

    def _cut(self, message: ToolMessage) -> ToolMessage:
        """`message` without its middle, if it is so large that it must not stay whole even without a file."""
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
    """`result` with its messages changed."""
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
    """A name that says which tool it was, and that no other call has."""
    safe = "".join(character if character.isalnum() or character in "-_" else "_" for character in tool)
    return f"{safe[:40]}-{sha256(call_id.encode()).hexdigest()[:12]}.txt"
