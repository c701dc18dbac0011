"""The agent as an MCP server for one person, whatever carries the messages."""

import base64
import inspect
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import McpError

from deerflow import __version__
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.principal import Principal
from deerflow.harness import Harness
from deerflow.serving.mcp_desk import RESOURCE, TOOLS, McpDesk

INSTRUCTIONS = (
    "DeerFlow is an agent with a computer of its own: it researches, writes code and makes files. Give it whole tasks "
    "with `ask`; it answers when it is done. What it has made is found with `list_artifacts`."
)
READ_ONLY = frozenset({"list_threads", "read_thread", "list_artifacts", "read_artifact"})


def mcp_server(harness: Harness, who: Principal) -> "Server[Any, Any]":
    """A server that does everything in the name of `who`."""
    server: Server[Any, Any] = Server("deerflow", __version__, INSTRUCTIONS)
    desk = McpDesk(harness, who)

    async def list_tools(_: types.ListToolsRequest) -> types.ServerResult:
        return types.ServerResult(types.ListToolsResult(tools=described_tools()))

    async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
        teller = Teller(server)
        params = request.params
        return types.ServerResult(await desk.call(params.name, params.arguments or {}, teller.tell))

    async def list_resources(_: types.ListResourcesRequest) -> types.ServerResult:
        return types.ServerResult(types.ListResourcesResult(resources=await desk.resources()))

    async def list_templates(_: types.ListResourceTemplatesRequest) -> types.ServerResult:
        template = types.ResourceTemplate(uriTemplate=RESOURCE, name="artifact", description="A file of a thread.")
        return types.ServerResult(types.ListResourceTemplatesResult(resourceTemplates=[template]))

    async def read_resource(request: types.ReadResourceRequest) -> types.ServerResult:
        return types.ServerResult(await resource(desk, request.params.uri))

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
class Teller:
    """Tells the caller of one request how far it is, if they want to know."""

    server: "Server[Any, Any]"
    steps: "count[int]" = field(default_factory=lambda: count(1))

    async def tell(self, line: str) -> None:
        """Send one notification."""
        context = self.server.request_context
        token = context.meta.progressToken if context.meta else None
        if token is not None:
            related = str(context.request_id)
            await context.session.send_progress_notification(token, next(self.steps), None, line, related)


def described_tools() -> list[types.Tool]:
    """The tools as other programs see them."""
    return [
        types.Tool(
            name=name,
            description=inspect.cleandoc(kind.__doc__ or name),
            inputSchema=schema_of(kind.model_json_schema()),
            annotations=types.ToolAnnotations(readOnlyHint=name in READ_ONLY, openWorldHint=name not in READ_ONLY),
        )
        for name, kind in TOOLS.items()
    ]


def schema_of(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without what is said elsewhere."""
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


async def resource(desk: McpDesk, uri: object) -> types.ReadResourceResult:
    """The content at an address."""
    try:
        content, kind = await desk.read_resource(str(uri))
    except DeerFlowError as problem:
        raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message=str(problem))) from problem
    try:
        shown: dict[str, object] = {"text": content.decode()}
    except UnicodeDecodeError:
        shown = {"blob": base64.b64encode(content).decode()}
    return types.ReadResourceResult.model_validate({"contents": [{"uri": str(uri), "mimeType": kind, **shown}]})
