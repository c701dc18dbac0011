"""Client side of the Agent Client Protocol: file access, permissions and session updates."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from acp import RequestError
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    WriteTextFileResponse,
)

from deerflow.domain.errors import FileProblem
from deerflow.domain.subagents import PermissionRequest
from deerflow.sandbox.files.files import LocalThreadFiles

MAX_TEXT_CHARS = 1_000_000
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_ARGUMENT_CHARS = 8_000
MAX_TITLE_CHARS = 500
INVALID_PARAMS = -32602

PermissionHandler = Callable[[PermissionRequest], Awaitable[bool]]


class AcpClientCallbacks:
    """Client side of the protocol for one session."""

    def __init__(
        self,
        files: LocalThreadFiles,
        on_progress: Callable[[str], None],
        request_permission: PermissionHandler,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._files = files
        self._on_progress = on_progress
        self._redact = redact
        self._request_permission = request_permission
        self._chunks: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        """Return the text of the agent so far."""
        return self._redact("".join(self._chunks))

    def on_connect(self, conn: object) -> None:
        """Do nothing: no requests are sent from here."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Record a message or progress update of the agent."""
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text)):
                if self._length < MAX_TEXT_CHARS:
                    self._chunks.append(text[: MAX_TEXT_CHARS - self._length])
                    self._length += len(text)
                self._report(text)
            case ToolCallStart(title=title):
                self._report(f"\n[{title}]\n")
            case ToolCallProgress(title=title, status="failed"):
                self._report(f"\n[{title or 'a tool'} failed]\n")
            case AgentPlanUpdate(entries=entries):
                self._report("".join(f"\n- [{entry.status}] {entry.content}" for entry in entries) + "\n")

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        """Return the decision about a single action of the agent."""
        title = self._redact(tool_call.title or "something it does not name")
        question = PermissionRequest(
            title[:MAX_TITLE_CHARS], tool_call.kind or "other", self._to_display(tool_call.raw_input)
        )
        is_allowed = await self._request_permission(question)
        kinds = ("allow_once", "allow_always") if is_allowed else ("reject_once", "reject_always")
        fitting = [option for kind in kinds for option in options if option.kind == kind]
        if not fitting:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=fitting[0].option_id)
        return RequestPermissionResponse(outcome=chosen)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> ReadTextFileResponse:
        """Return a file of the workspace, or some of its lines."""
        try:
            content = await self._files.read(path, limit=MAX_FILE_BYTES)
        except FileProblem as problem:
            raise RequestError(INVALID_PARAMS, str(problem)) from problem
        text = content.decode(errors="replace")
        if line is not None or limit is not None:
            begin = max((line or 1) - 1, 0)
            lines = text.splitlines(keepends=True)
            text = "".join(lines[begin : begin + limit if limit is not None else None])
        return ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        """Write a file of the workspace."""
        try:
            await self._files.write(path, content.encode(errors="replace"))
        except FileProblem as problem:
            raise RequestError(INVALID_PARAMS, str(problem)) from problem
        return WriteTextFileResponse()

    async def create_terminal(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: an agent runs its commands itself, inside its sandbox."""
        raise RequestError.method_not_found("terminal/create")

    def _report(self, text: str) -> None:
        self._on_progress(self._redact(text))

    def _to_display(self, given: object) -> dict[str, Any]:
        """Return the arguments of a call for display, clipped to a readable length."""
        text = self._redact(json.dumps(given, ensure_ascii=False))
        if len(text) > MAX_ARGUMENT_CHARS:
            return {"beginning": text[:MAX_ARGUMENT_CHARS]}
        shown = json.loads(text)
        return shown if isinstance(shown, dict) else {} if shown is None else {"value": shown}

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuse extension methods."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore extension notifications."""
