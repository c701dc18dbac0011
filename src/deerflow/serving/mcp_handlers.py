"""Handlers of the MCP tools for one user, and their results as data and text."""

import asyncio
import base64
import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote

import orjson
from mcp import types
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.domain.errors import DeerFlowError, InvalidRequest, TooLarge
from deerflow.domain.files import OUTPUTS, FileEntry
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import AgentSpec, Resume, RunRequest
from deerflow.domain.threads import ThreadRecord
from deerflow.harness import Harness
from deerflow.runtime.journal.serialization import extract_text, has_action_requests
from deerflow.sandbox.file_access import ReadableFile
from deerflow.serving.turns import Heartbeat, TextDelta, ToolCallStarted, ToolProgressed, Turn, TurnEvent, build_resume
from deerflow.tools.builtins import detect_image_type

NEXT_STEPS = {
    "answered": None,
    "asks": "Call `ask` with this thread_id and the answer as prompt.",
    "needs_approval": "Show the calls to a person, then call `decide` with this thread_id and what they say.",
    "failed": "Nothing was lost: call `ask` with this thread_id to try again.",
    "stopped": "Call `ask` with this thread_id to go on.",
}


def format_turn(turn: Turn) -> types.CallToolResult:
    """Return the result of a turn."""
    waits = turn.ending == "needs_approval"
    calls = [call for question in turn.questions for call in list_waiting_calls(question)] if waits else []
    data = {
        "thread_id": turn.request.thread_id,
        "run_id": turn.run.run_id if turn.run else None,
        "status": turn.ending,
        "answer": turn.get_answer(),
        "error": turn.reader.failure if turn.ending == "failed" else None,
        "waiting_calls": calls,
        "how_to_go_on": NEXT_STEPS[turn.ending],
    }
    lines = [turn.get_answer(), data["error"], *(f"Waits for a word: {format_call(call)}" for call in calls)]
    lines += [data["how_to_go_on"], f"[thread_id: {turn.request.thread_id}, status: {turn.ending}]"]
    text = "\n\n".join(str(line) for line in lines if line)
    return make_result(data, text, is_error=turn.ending == "failed")


def list_waiting_calls(question: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the calls a paused run waits for."""
    return [{"name": each["name"], "args": each["args"]} for each in question["value"]["action_requests"]]


def format_call(call: Mapping[str, Any]) -> str:
    """Return a call in one line."""
    return f"{call['name']} {orjson.dumps(call['args'], default=str).decode()}"


def serialize_thread(thread: ThreadRecord) -> dict[str, object]:
    """Return a thread for a list."""
    return {
        "thread_id": thread.thread_id,
        "title": thread.title,
        "status": thread.status,
        "waits_for": thread.waits_for,
        "updated_at": thread.updated_at.isoformat(),
    }


def serialize_file(file: FileEntry) -> dict[str, object]:
    """Return a file for a list."""
    return {"path": file.path, "size": file.size, "modified_at": file.modified_at.isoformat()}


def read_content(file: ReadableFile, path: str, offset: int, length: int) -> types.CallToolResult:
    """Return a part of a file as text, image or base64. Blocks."""
    piece = file.read(offset, length)
    kind = guess_media_type(path, piece)
    data = {"path": path, "size": file.size, "offset": offset, "bytes": len(piece), "media_type": kind}
    is_whole = offset == 0 and len(piece) == file.size
    if is_whole and kind.startswith("image/") and detect_image_type(piece):
        image = types.ImageContent(type="image", data=base64.b64encode(piece).decode(), mimeType=kind)
        return types.CallToolResult(content=[image], structuredContent=data)
    text, encoding = decode_piece(piece, is_partial=not is_whole)
    return make_result({**data, "encoding": encoding, "content": text}, text)


def decode_piece(piece: bytes, *, is_partial: bool) -> tuple[str, str]:
    """Return bytes as text or base64, with the encoding. A part may be cut within a character."""
    try:
        return piece.decode(), "utf-8"
    except UnicodeDecodeError as problem:
        is_cut = is_partial and (problem.start >= len(piece) - 3 or problem.end <= 3)
        if is_cut and b"\0" not in piece:
            return piece.decode(errors="replace"), "utf-8"
    return base64.b64encode(piece).decode(), "base64"


def guess_media_type(path: str, beginning: bytes = b"") -> str:
    """Return the media type of a file."""
    return detect_image_type(beginning) or mimetypes.guess_type(path)[0] or "application/octet-stream"


def make_result(data: dict[str, Any], text: str | None = None, *, is_error: bool = False) -> types.CallToolResult:
    """Return a result with structured data and text."""
    shown = text if text is not None else orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=shown)]
    return types.CallToolResult(content=content, structuredContent=data, isError=is_error)


MAX_THREADS, MAX_MESSAGES, MAX_FILES = 100, 200, 1000
MAX_BYTES = 512 * 1024
ThreadId = Annotated[str, Field(min_length=1, max_length=64, description="The id of a thread.")]


class ToolArguments(BaseModel):
    """Arguments of a tool; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class AskArguments(ToolArguments):
    """Give the DeerFlow agent a task or a question and wait for its answer.

    The agent has a computer of its own, searches the web, writes files and code, and may work for many minutes;
    progress notifications tell what it does. Name a thread to go on in it. The result says how the turn ended:
    `answered`, `asks` (the agent asks back: call `ask` again with the same thread_id and the answer as prompt),
    `needs_approval` (tool calls wait for a person's word: call `decide`), `failed` or `stopped`.
    """

    prompt: Annotated[str, Field(min_length=1, description="What to do or answer.")]
    thread_id: Annotated[ThreadId | None, Field(description="The thread to go on in; left out: a new one.")] = None
    agent: Annotated[str | None, Field(description="A custom agent of yours; left out: the lead agent.")] = None
    model: Annotated[str | None, Field(description="A configured model; left out: the default.")] = None
    plan: Annotated[bool, Field(description="Whether the agent keeps a list of what is to be done.")] = False


class DecideArguments(ToolArguments):
    """Say whether the tool calls that a thread waits for may be made, and wait for what comes of it, as with `ask`.

    Only a person may decide: show them what waits, and pass on what they say.
    """

    thread_id: ThreadId
    decision: Annotated[Literal["approve", "reject"], Field(description="What the person said, for all that waits.")]
    reason: Annotated[str | None, Field(description="Why not; the agent is told.")] = None
    agent: Annotated[str | None, Field(description="The custom agent the thread was begun with, if any.")] = None
    model: Annotated[str | None, Field(description="A configured model; left out: the default.")] = None


class ListThreadsArguments(ToolArguments):
    """Your conversations with the agent, latest activity first."""

    limit: Annotated[int, Field(ge=1, le=MAX_THREADS, description="Maximum number of threads.")] = 20
    offset: Annotated[int, Field(ge=0, le=10**6, description="So many are passed over.")] = 0


class ReadThreadArguments(ToolArguments):
    """What was said in a thread, oldest first, without what only the agent sees."""

    thread_id: ThreadId
    limit: Annotated[int, Field(ge=1, le=MAX_MESSAGES, description="So many of the latest messages at most.")] = 50


class ListArtifactsArguments(ToolArguments):
    """The files a thread has made."""

    thread_id: ThreadId
    folder: Annotated[str, Field(description="Where to look.")] = OUTPUTS


class ReadArtifactArguments(ToolArguments):
    """A file of a thread: text as text, pictures as pictures, anything else as base64."""

    thread_id: ThreadId
    path: Annotated[str, Field(min_length=1, description=f"As it is listed, e.g. {OUTPUTS}/report.md.")]
    offset: Annotated[int, Field(ge=0, le=2**53, description="The first byte wanted.")] = 0
    length: Annotated[int, Field(ge=1, le=MAX_BYTES, description="So many bytes at most.")] = MAX_BYTES


SCHEME = "deerflow://threads/"
RESOURCE_TEMPLATE = f"{SCHEME}{{thread_id}}/artifacts{{/path*}}"
RECENT_THREADS = 10
MAX_LINE_CHARS = 200

ProgressCallback = Callable[[str], Awaitable[None]]
"""Reports progress to the caller."""


@dataclass(frozen=True, slots=True)
class McpToolHandlers:
    """Handlers of tools and resources; they see only what belongs to `user`."""

    harness: Harness
    user: Principal

    async def call(self, name: str, arguments: Mapping[str, Any], report: ProgressCallback) -> types.CallToolResult:
        """Call a tool; errors are returned as results."""
        kind = TOOLS.get(name)
        if kind is None:
            return make_error(f"there is no tool {name!r}; there are {', '.join(TOOLS)}")
        try:
            return await self._dispatch(kind.model_validate(arguments), report)
        except ValidationError as problem:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problem.errors())
            return make_error(f"{name}: {wrong}")
        except DeerFlowError as problem:
            return make_error(self.harness.core.source.redact(f"{type(problem).__name__}: {problem}"))

    async def _dispatch(self, arguments: ToolArguments, report: ProgressCallback) -> types.CallToolResult:
        match arguments:
            case AskArguments():
                return await self._ask(arguments, report)
            case DecideArguments():
                return await self._decide(arguments, report)
            case ListThreadsArguments():
                found = await self.harness.threads.search(self.user, arguments.limit, arguments.offset)
                return make_result({"threads": [serialize_thread(thread) for thread in found]})
            case ReadThreadArguments():
                return await self._read_thread(arguments)
            case ListArtifactsArguments():
                return await self._list_artifacts(arguments)
            case ReadArtifactArguments():
                return await self._read_artifact(arguments)
        raise InvalidRequest(f"no handler for {type(arguments).__name__}")

    async def _ask(self, arguments: AskArguments, report: ProgressCallback) -> types.CallToolResult:
        asked = [each for each in await self._questions(arguments.thread_id) if not has_action_requests(each)]
        request = RunRequest(
            arguments.thread_id or new_id(),
            [] if asked else [{"type": "human", "content": arguments.prompt}],
            self._agent(arguments.agent, arguments.model, plan=arguments.plan),
            resume=build_resume(asked, arguments.prompt) if asked else None,
            create_thread=arguments.thread_id is None,
            metadata={"source": "mcp"},
        )
        return await self._run_turn(request, report)

    async def _decide(self, arguments: DecideArguments, report: ProgressCallback) -> types.CallToolResult:
        questions = await self._questions(arguments.thread_id)
        if not all(map(has_action_requests, questions)):
            raise InvalidRequest("what waits is a question, not a call: answer it with `ask`")
        decision: dict[str, str] = {"type": arguments.decision}
        if arguments.decision == "reject" and arguments.reason:
            decision["message"] = arguments.reason
        answers = {each["id"]: {"decisions": [decision] * len(list_waiting_calls(each))} for each in questions}
        request = RunRequest(
            arguments.thread_id,
            agent=self._agent(arguments.agent, arguments.model),
            resume=Resume(answers),
            create_thread=False,
            metadata={"source": "mcp"},
        )
        return await self._run_turn(request, report)

    async def _questions(self, thread_id: str | None) -> Sequence[Mapping[str, Any]]:
        """Return the interrupts of a paused thread."""
        if thread_id is None or (await self.harness.threads.get(thread_id, self.user)).waits_for != "approval":
            return ()
        found: list[Mapping[str, Any]] = orjson.loads(
            (await self.harness.threads.state(thread_id, self.user)).interrupts
        )
        return found

    async def _run_turn(self, request: RunRequest, report: ProgressCallback) -> types.CallToolResult:
        turn = Turn(self.harness, self.user, request)
        is_writing = False
        async for event in turn.follow():
            if isinstance(event, TextDelta):
                if not is_writing:
                    await report("thinks" if event.is_thought else "writes")
                is_writing = True
                continue
            is_writing = False
            if line := format_event(event):
                await report(line)
        return format_turn(turn)

    def _agent(self, name: str | None, model: str | None, *, plan: bool = False) -> AgentSpec:
        owner = self.user.user_id if name else None
        return AgentSpec(model_name=model, agent_name=name, owner=owner, is_plan_mode=plan)

    async def _read_thread(self, arguments: ReadThreadArguments) -> types.CallToolResult:
        thread = await self.harness.threads.get(arguments.thread_id, self.user)
        page = await self.harness.threads.messages_page(arguments.thread_id, self.user, None, arguments.limit)
        visible = [each.fields for each in page.messages if each.left_behind_by is None]
        messages = [
            {"from": each["type"], "text": extract_text(each["content"]), "tools": list_tool_names(each)}
            for each in visible
            if not each["additional_kwargs"].get("hide_from_ui")
        ]
        return make_result({**serialize_thread(thread), "messages": messages, "has_more": page.earlier is not None})

    async def _list_artifacts(self, arguments: ListArtifactsArguments) -> types.CallToolResult:
        thread = await self.harness.threads.get(arguments.thread_id, self.user)
        files = await self.harness.files_of(thread).list(arguments.folder)
        shown = [serialize_file(file) for file in files[:MAX_FILES]]
        return make_result({"thread_id": arguments.thread_id, "files": shown, "is_truncated": len(files) > MAX_FILES})

    async def _read_artifact(self, arguments: ReadArtifactArguments) -> types.CallToolResult:
        file = await self.harness.artifacts.open(arguments.thread_id, self.user, arguments.path)
        try:
            return await asyncio.to_thread(read_content, file, arguments.path, arguments.offset, arguments.length)
        finally:
            await asyncio.to_thread(file.close)

    async def list_resources(self) -> list[types.Resource]:
        """Return the files of the latest threads."""
        found = []
        for thread in await self.harness.threads.search(self.user, RECENT_THREADS, 0):
            for file in (await self.harness.files_of(thread).list(OUTPUTS))[:MAX_FILES]:
                uri = f"{SCHEME}{thread.thread_id}/artifacts{quote(file.path)}"
                name, kind = file.path.rpartition("/")[2], guess_media_type(file.path)
                found.append(types.Resource.model_validate({"uri": uri, "name": name, "mimeType": kind}))
        return found

    async def read_resource(self, uri: str) -> tuple[bytes, str]:
        """Return the content of a file of a thread, and its media type.

        Raises:
            InvalidRequest: The URI is not that of a file.
            TooLarge: The file has to be read in parts.
        """
        thread_id, slash, path = uri.removeprefix(SCHEME).partition("/artifacts/")
        if not uri.startswith(SCHEME) or not slash:
            raise InvalidRequest(f"resources are at {RESOURCE_TEMPLATE}, not at {uri!r}")
        file = await self.harness.artifacts.open(thread_id, self.user, f"/{unquote(path)}")
        try:
            if file.size > MAX_BYTES:
                raise TooLarge(f"the file has {file.size} bytes, more than {MAX_BYTES}; use the tool `read_artifact`")
            content = await asyncio.to_thread(file.read, 0, file.size)
        finally:
            await asyncio.to_thread(file.close)
        return content, guess_media_type(path, content)


TOOLS: Mapping[str, type[ToolArguments]] = MappingProxyType(
    {
        "ask": AskArguments,
        "decide": DecideArguments,
        "list_threads": ListThreadsArguments,
        "read_thread": ReadThreadArguments,
        "list_artifacts": ListArtifactsArguments,
        "read_artifact": ReadArtifactArguments,
    }
)


def format_event(event: TurnEvent) -> str | None:
    """Return a progress line for an event; None when it is not worth one."""
    match event:
        case ToolCallStarted(tool=tool):
            return f"uses {tool}"
        case ToolProgressed(text=text):
            return text.strip()[-MAX_LINE_CHARS:] or None
        case Heartbeat():
            return "goes on"
    return None


def list_tool_names(message: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools a message calls."""
    return [call["name"] for call in message.get("tool_calls") or ()]


def make_error(sentence: str) -> types.CallToolResult:
    """Return an error result."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=sentence)], isError=True)
