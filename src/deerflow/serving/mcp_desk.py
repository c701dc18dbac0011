"""What the MCP tools do for one person."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

import orjson
from mcp import types
from pydantic import ValidationError

from deerflow.client.approvals import is_about_calls
from deerflow.client.events import text_of
from deerflow.domain.errors import DeerFlowError, InvalidRequest, TooLarge
from deerflow.domain.files import OUTPUTS
from deerflow.domain.ids import new_id
from deerflow.domain.principal import Principal
from deerflow.domain.runs import AgentSpec, Resume, RunRequest
from deerflow.harness import Harness
from deerflow.serving.happenings import Called, Happening, Progressed, Said, Waited
from deerflow.serving.mcp_answers import (
    content_of,
    media_type,
    shown_file,
    shown_thread,
    told_of_turn,
    waiting_calls,
    with_data,
)
from deerflow.serving.mcp_tools import (
    MOST_BYTES,
    MOST_FILES,
    Arguments,
    Ask,
    Decide,
    ListArtifacts,
    ListThreads,
    ReadArtifact,
    ReadThread,
)
from deerflow.serving.turns import Turn, answering

SCHEME = "deerflow://threads/"
RESOURCE = f"{SCHEME}{{thread_id}}/artifacts{{/path*}}"
RECENT_THREADS = 10
LONGEST_LINE = 200

Tell = Callable[[str], Awaitable[None]]
"""Has the caller know how far a call is."""


@dataclass(frozen=True, slots=True)
class McpDesk:
    """Every method sees only what belongs to `who`."""

    harness: Harness
    who: Principal

    async def call(self, name: str, arguments: Mapping[str, Any], tell: Tell) -> types.CallToolResult:
        """Do what a tool does; what goes wrong is told to whoever called it."""
        kind = TOOLS.get(name)
        if kind is None:
            return refusal(f"there is no tool {name!r}; there are {', '.join(TOOLS)}")
        try:
            return await self._do(kind.model_validate(arguments), tell)
        except ValidationError as problem:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problem.errors())
            return refusal(f"{name}: {wrong}")
        except DeerFlowError as problem:
            return refusal(self.harness.source.hide(f"{type(problem).__name__}: {problem}"))

    async def _do(self, wanted: Arguments, tell: Tell) -> types.CallToolResult:
        match wanted:
            case Ask():
                return await self._ask(wanted, tell)
            case Decide():
                return await self._decide(wanted, tell)
            case ListThreads():
                found = await self.harness.threads.search(self.who, wanted.limit, wanted.offset)
                return with_data({"threads": [shown_thread(thread) for thread in found]})
            case ReadThread():
                return await self._read_thread(wanted)
            case ListArtifacts():
                return await self._list_artifacts(wanted)
            case ReadArtifact():
                return await self._read_artifact(wanted)
        raise InvalidRequest(f"nothing is done for {type(wanted).__name__}")

    async def _ask(self, wanted: Ask, tell: Tell) -> types.CallToolResult:
        asked = [each for each in await self._questions(wanted.thread_id) if not is_about_calls(each)]
        request = RunRequest(
            wanted.thread_id or new_id(),
            [] if asked else [{"type": "human", "content": wanted.prompt}],
            self._agent(wanted.agent, wanted.model, plan=wanted.plan),
            resume=answering(asked, wanted.prompt) if asked else None,
            create_thread=wanted.thread_id is None,
            metadata={"source": "mcp"},
        )
        return await self._take_turn(request, tell)

    async def _decide(self, wanted: Decide, tell: Tell) -> types.CallToolResult:
        questions = await self._questions(wanted.thread_id)
        if not all(map(is_about_calls, questions)):
            raise InvalidRequest("what waits is a question, not a call: answer it with `ask`")
        decision: dict[str, str] = {"type": wanted.decision}
        if wanted.decision == "reject" and wanted.reason:
            decision["message"] = wanted.reason
        answers = {each["id"]: {"decisions": [decision] * len(waiting_calls(each))} for each in questions}
        request = RunRequest(
            wanted.thread_id,
            agent=self._agent(wanted.agent, wanted.model),
            resume=Resume(answers),
            create_thread=False,
            metadata={"source": "mcp"},
        )
        return await self._take_turn(request, tell)

    async def _questions(self, thread_id: str | None) -> Sequence[Mapping[str, Any]]:
        """What a thread waits for."""
        if thread_id is None or (await self.harness.threads.get(thread_id, self.who)).waits_for != "approval":
            return ()
        found: list[Mapping[str, Any]] = orjson.loads(
            (await self.harness.threads.state(thread_id, self.who)).interrupts
        )
        return found

    async def _take_turn(self, request: RunRequest, tell: Tell) -> types.CallToolResult:
        turn = Turn(self.harness, self.who, request)
        is_writing = False
        async for happening in turn.follow():
            if isinstance(happening, Said):
                if not is_writing:
                    await tell("thinks" if happening.is_thought else "writes")
                is_writing = True
                continue
            is_writing = False
            if line := line_of(happening):
                await tell(line)
        return told_of_turn(turn)

    def _agent(self, name: str | None, model: str | None, *, plan: bool = False) -> AgentSpec:
        owner = self.who.user_id if name else None
        return AgentSpec(model_name=model, agent_name=name, owner=owner, is_plan_mode=plan)

    async def _read_thread(self, wanted: ReadThread) -> types.CallToolResult:
        thread = await self.harness.threads.get(wanted.thread_id, self.who)
        page = await self.harness.threads.messages_page(wanted.thread_id, self.who, None, wanted.limit)
        said = [each.fields for each in page.messages if each.left_behind_by is None]
        messages = [
            {"from": each["type"], "text": text_of(each["content"]), "tools": tools_in(each)}
            for each in said
            if not each["additional_kwargs"].get("hide_from_ui")
        ]
        return with_data({**shown_thread(thread), "messages": messages, "has_more": page.earlier is not None})

    async def _list_artifacts(self, wanted: ListArtifacts) -> types.CallToolResult:
        thread = await self.harness.threads.get(wanted.thread_id, self.who)
        files = await self.harness.files_of(thread).list(wanted.folder)
        shown = [shown_file(file) for file in files[:MOST_FILES]]
        return with_data({"thread_id": wanted.thread_id, "files": shown, "is_truncated": len(files) > MOST_FILES})

    async def _read_artifact(self, wanted: ReadArtifact) -> types.CallToolResult:
        file = await self.harness.artifacts.open(wanted.thread_id, self.who, wanted.path)
        try:
            return await asyncio.to_thread(content_of, file, wanted.path, wanted.offset, wanted.length)
        finally:
            await asyncio.to_thread(file.close)

    async def resources(self) -> list[types.Resource]:
        """The files of the latest threads."""
        found = []
        for thread in await self.harness.threads.search(self.who, RECENT_THREADS, 0):
            for file in (await self.harness.files_of(thread).list(OUTPUTS))[:MOST_FILES]:
                uri = f"{SCHEME}{thread.thread_id}/artifacts{quote(file.path)}"
                name, kind = file.path.rpartition("/")[2], media_type(file.path)
                found.append(types.Resource.model_validate({"uri": uri, "name": name, "mimeType": kind}))
        return found

    async def read_resource(self, uri: str) -> tuple[bytes, str]:
        """The content of a file of a thread, and its media type.

        Raises:
            InvalidRequest: It is not the address of a file.
            TooLarge: It has to be read in pieces.
        """
        thread_id, slash, path = uri.removeprefix(SCHEME).partition("/artifacts/")
        if not uri.startswith(SCHEME) or not slash:
            raise InvalidRequest(f"resources are at {RESOURCE}, not at {uri!r}")
        file = await self.harness.artifacts.open(thread_id, self.who, f"/{unquote(path)}")
        try:
            if file.size > MOST_BYTES:
                raise TooLarge(f"the file has {file.size} bytes, more than {MOST_BYTES}; use the tool `read_artifact`")
            content = await asyncio.to_thread(file.read, 0, file.size)
        finally:
            await asyncio.to_thread(file.close)
        return content, media_type(path, content)


TOOLS: Mapping[str, type[Arguments]] = MappingProxyType(
    {
        "ask": Ask,
        "decide": Decide,
        "list_threads": ListThreads,
        "read_thread": ReadThread,
        "list_artifacts": ListArtifacts,
        "read_artifact": ReadArtifact,
    }
)


def line_of(happening: Happening) -> str | None:
    """A line about what happens; None when it is nothing to speak of."""
    match happening:
        case Called(tool=tool):
            return f"uses {tool}"
        case Progressed(text=text):
            return text.strip()[-LONGEST_LINE:] or None
        case Waited():
            return "goes on"
    return None


def tools_in(message: Mapping[str, Any]) -> list[str]:
    """The tools that a message calls."""
    return [call["name"] for call in message.get("tool_calls") or ()]


def refusal(sentence: str) -> types.CallToolResult:
    """What is wrong with a call."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=sentence)], isError=True)
