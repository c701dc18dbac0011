"""What an agent of somebody else's may do through us: tell, ask for permission, and use the files of its workspace."""

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

from deerflow.domain.acp import PermissionQuestion
from deerflow.domain.errors import FileProblem
from deerflow.sandbox.files import LocalThreadFiles

MOST_TEXT = 1_000_000
MOST_FILE = 10 * 1024 * 1024
MOST_ARGUMENTS = 8_000
MOST_TITLE = 500
INVALID = -32602

Ask = Callable[[PermissionQuestion], Awaitable[bool]]


class Hands:
    """The client's side of the protocol, for one piece of work."""

    def __init__(
        self, files: LocalThreadFiles, hear: Callable[[str], None], ask: Ask, hide: Callable[[str], str] = str
    ) -> None:
        self._files = files
        self._tell = hear
        self._hide = hide
        self._ask = ask
        self._said: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        """What the agent has said so far."""
        return self._hide("".join(self._said))

    def on_connect(self, conn: object) -> None:
        """Nothing is asked of the agent from here."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Note what the agent says and does."""
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text)):
                if self._length < MOST_TEXT:
                    self._said.append(text[: MOST_TEXT - self._length])
                    self._length += len(text)
                self._hear(text)
            case ToolCallStart(title=title):
                self._hear(f"\n[{title}]\n")
            case ToolCallProgress(title=title, status="failed"):
                self._hear(f"\n[{title or 'a tool'} failed]\n")
            case AgentPlanUpdate(entries=entries):
                self._hear("".join(f"\n- [{entry.status}] {entry.content}" for entry in entries) + "\n")

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        """Have somebody allow or refuse what the agent wants to do, this once."""
        title = self._hide(tool_call.title or "something it does not name")
        question = PermissionQuestion(title[:MOST_TITLE], tool_call.kind or "other", self._shown(tool_call.raw_input))
        is_allowed = await self._ask(question)
        kinds = ("allow_once", "allow_always") if is_allowed else ("reject_once", "reject_always")
        fitting = [option for kind in kinds for option in options if option.kind == kind]
        if not fitting:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=fitting[0].option_id)
        return RequestPermissionResponse(outcome=chosen)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> ReadTextFileResponse:
        """A file of the workspace, or some of its lines."""
        try:
            content = await self._files.read(path, limit=MOST_FILE)
        except FileProblem as problem:
            raise RequestError(INVALID, str(problem)) from problem
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
            raise RequestError(INVALID, str(problem)) from problem
        return WriteTextFileResponse()

    async def create_terminal(self, *_: Any, **__: Any) -> NoReturn:
        """Terminals are not to be had: an agent runs its commands itself, where it is confined."""
        raise RequestError.method_not_found("terminal/create")

    def _hear(self, text: str) -> None:
        self._tell(self._hide(text))

    def _shown(self, given: object) -> dict[str, Any]:
        """What a call is given, as a person can be shown it: not more than can be read."""
        text = self._hide(json.dumps(given, ensure_ascii=False))
        if len(text) > MOST_ARGUMENTS:
            return {"beginning": text[:MOST_ARGUMENTS]}
        shown = json.loads(text)
        return shown if isinstance(shown, dict) else {} if shown is None else {"value": shown}

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Nothing is done beyond the protocol."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Nothing is heard beyond the protocol."""
