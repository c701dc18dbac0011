"""MCP server of the agent: one per user over HTTP, and `deerflow mcp` on standard input and output."""

import asyncio
import base64
import inspect
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

from anyio import ClosedResourceError
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError

from deerflow import __version__
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import Conflict, DeerFlowError
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.harness import Harness, open_harness
from deerflow.serving import open_stdio, take_over_stdout
from deerflow.serving.mcp_handlers import RESOURCE_TEMPLATE, TOOLS, McpToolHandlers
from deerflow.serving.turns import stop_runs

IDLE_S = 30 * 60.0
MAX_SESSIONS = 100
"""Maximum number of sessions per user."""
MAX_USERS = 1000
CLOSE_S = 10.0
TRANSPORT_LOGGER = "mcp.server.streamable_http"


@dataclass(frozen=True, slots=True)
class UserSessions:
    """Sessions of one user, and the task that keeps them open."""

    manager: StreamableHTTPSessionManager
    task: "asyncio.Task[None]"
    over: asyncio.Event


class McpHttpSessions:
    """Opens sessions on the first request of a user. Must be closed."""

    def __init__(self, harness: Harness, max_body: int) -> None:
        self._harness = harness
        self._max_body = max_body
        self._users: OrderedDict[str, UserSessions] = OrderedDict()
        self._opening = asyncio.Lock()
        self._is_closed = False
        logging.getLogger(TRANSPORT_LOGGER).addFilter(is_relevant_record)

    async def get_manager(self, user: Principal) -> StreamableHTTPSessionManager:
        """Return the session manager of a user.

        Raises:
            Conflict: The server is shutting down.
        """
        async with self._opening:
            if self._is_closed:
                raise Conflict("the server is shutting down")
            if user.user_id not in self._users:
                self._users[user.user_id] = await self._open(user)
            self._users.move_to_end(user.user_id)
            while len(self._users) > MAX_USERS:
                _, oldest = self._users.popitem(last=False)
                await close_sessions(oldest)
            return self._users[user.user_id].manager

    async def aclose(self) -> None:
        """End all sessions and the runs that clients wait for."""
        async with self._opening:
            self._is_closed = True
            users, self._users = list(self._users.values()), OrderedDict()
        for sessions in users:
            await close_sessions(sessions)

    async def _open(self, user: Principal) -> UserSessions:
        manager = StreamableHTTPSessionManager(
            create_mcp_server(self._harness, user),
            session_idle_timeout=IDLE_S,
            max_request_body_size=self._max_body,
            max_sessions=MAX_SESSIONS,
        )
        ready, over = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(keep_open(manager, ready, over), name=f"MCP sessions of {user.user_id}")
        await ready.wait()
        return UserSessions(manager, task, over)


def is_relevant_record(record: logging.LogRecord) -> bool:
    """Return whether a log record is about more than a closed session, which the library logs as an error."""
    return record.exc_info is None or not isinstance(record.exc_info[1], ClosedResourceError)


async def keep_open(manager: StreamableHTTPSessionManager, ready: asyncio.Event, over: asyncio.Event) -> None:
    """Keep the sessions open: they must be opened and closed in the same task."""
    async with manager.run():
        ready.set()
        await over.wait()


async def close_sessions(sessions: UserSessions) -> None:
    """End sessions and wait for them."""
    sessions.over.set()
    await asyncio.wait({sessions.task}, timeout=CLOSE_S)


INSTRUCTIONS = (
    "DeerFlow is an agent with a computer of its own: it researches, writes code and makes files. Give it whole tasks "
    "with `ask`; it answers when it is done. What it has made is found with `list_artifacts`."
)
READ_ONLY = frozenset({"list_threads", "read_thread", "list_artifacts", "read_artifact"})


def create_mcp_server(harness: Harness, user: Principal) -> "Server[Any, Any]":
    """Return a server that acts on behalf of `user`."""
    server: Server[Any, Any] = Server("deerflow", __version__, INSTRUCTIONS)
    handlers = McpToolHandlers(harness, user)

    async def list_tools(_: types.ListToolsRequest) -> types.ServerResult:
        return types.ServerResult(types.ListToolsResult(tools=describe_tools()))

    async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
        reporter = ProgressReporter(server)
        params = request.params
        return types.ServerResult(await handlers.call(params.name, params.arguments or {}, reporter.report))

    async def list_resources(_: types.ListResourcesRequest) -> types.ServerResult:
        return types.ServerResult(types.ListResourcesResult(resources=await handlers.list_resources()))

    async def list_templates(_: types.ListResourceTemplatesRequest) -> types.ServerResult:
        template = types.ResourceTemplate(
            uriTemplate=RESOURCE_TEMPLATE, name="artifact", description="A file of a thread."
        )
        return types.ServerResult(types.ListResourceTemplatesResult(resourceTemplates=[template]))

    async def read_resource(request: types.ReadResourceRequest) -> types.ServerResult:
        return types.ServerResult(await read_content(handlers, request.params.uri))

    server.request_handlers.update(
        {
            types.ListToolsRequest: list_tools,
            types.CallToolRequest: call_tool,
            types.ListResourcesRequest: list_resources,
            types.ListResourceTemplatesRequest: list_templates,
            types.ReadResourceRequest: read_resource,
        }
    )
    return server


@dataclass(slots=True)
class ProgressReporter:
    """Sends progress notifications of one request, if the client wants them."""

    server: "Server[Any, Any]"
    steps: "count[int]" = field(default_factory=lambda: count(1))

    async def report(self, line: str) -> None:
        """Send one notification."""
        context = self.server.request_context
        token = context.meta.progressToken if context.meta else None
        if token is not None:
            related = str(context.request_id)
            await context.session.send_progress_notification(token, next(self.steps), None, line, related)


def describe_tools() -> list[types.Tool]:
    """Return the tools for clients."""
    return [
        types.Tool(
            name=name,
            description=inspect.cleandoc(kind.__doc__ or name),
            inputSchema=strip_schema(kind.model_json_schema()),
            annotations=types.ToolAnnotations(readOnlyHint=name in READ_ONLY, openWorldHint=name not in READ_ONLY),
        )
        for name, kind in TOOLS.items()
    ]


def strip_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without title and description."""
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


async def read_content(handlers: McpToolHandlers, uri: object) -> types.ReadResourceResult:
    """Return the content of a resource."""
    try:
        content, kind = await handlers.read_resource(str(uri))
    except DeerFlowError as problem:
        raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message=str(problem))) from problem
    try:
        shown: dict[str, object] = {"text": content.decode()}
    except UnicodeDecodeError:
        shown = {"blob": base64.b64encode(content).decode()}
    return types.ReadResourceResult.model_validate({"contents": [{"uri": str(uri), "mimeType": kind, **shown}]})


async def serve_mcp(source: ConfigSource) -> None:
    """Serve the local user until the client closes the pipe."""
    reader, writer = await open_stdio(take_over_stdout())
    async with open_harness(source) as harness:
        server = create_mcp_server(harness, LOCAL_USER)
        try:
            # The library would read in a thread, which cannot be interrupted.
            streams: Any = LineReader(reader), LineWriter(writer)
            async with stdio_server(*streams) as (received, sent):
                await server.run(received, sent, server.create_initialization_options())
        finally:
            await stop_runs(harness)


@dataclass(frozen=True, slots=True)
class LineReader:
    """Asynchronous lines of a stream."""

    reader: asyncio.StreamReader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self.reader.readline()
        if not line:
            raise StopAsyncIteration
        return line.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class LineWriter:
    """Asynchronous text output to a stream."""

    writer: asyncio.StreamWriter

    async def write(self, text: str) -> None:
        self.writer.write(text.encode(errors="replace"))

    async def flush(self) -> None:
        await self.writer.drain()
