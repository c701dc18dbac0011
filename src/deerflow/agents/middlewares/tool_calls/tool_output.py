"""Tool output: large results are moved to a file, and the model sees the beginning and end."""

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

from deerflow.agent_support.replies import AsyncToolHandler, ToolHandler
from deerflow.agent_support.thread_state import ThreadState
from deerflow.config.sections.tools import ToolOutputConfig
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import OUTPUTS

FOLDER = f"{OUTPUTS}/.tool-results"
CUT = "[… {} characters left out …]"

Result = ToolMessage | Command[Any]


class ToolOutputMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Limits every tool result before it is added to the conversation."""

    def __init__(self, settings: ToolOutputConfig) -> None:
        super().__init__()
        self._settings = settings
        self._words = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())

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
