"""Client session of the `mcp` package with cancellation, concurrent elicitation and lenient notifications."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self, TypeVar

import anyio
from mcp import ClientSession, types
from mcp.client.session import MessageHandlerFnT
from mcp.shared.exceptions import McpError
from mcp.shared.message import MessageMetadata
from mcp.shared.session import ProgressFnT, RequestResponder
from pydantic import BaseModel, ValidationError

from deerflow import __version__
from deerflow.mcp.session.calls import Elicitation, ElicitationReply, to_prompt_infos, to_resource_infos, to_tool_infos
from deerflow.mcp.session.transports import Streams
from deerflow.mcp.status import McpResourceInfo, ServerListing

UNKNOWN_RESPONSE = "unknown request ID"
"""Text of the library's error."""
CANCEL_S = 2.0
MAX_PAGES = 50
MAX_TOOLS = 1000
ElicitationHandler = Callable[[Elicitation], Awaitable[ElicitationReply]]
Result = TypeVar("Result", bound=BaseModel)
Page = TypeVar("Page", bound=types.PaginatedResult)
Responder = RequestResponder[types.ServerRequest, types.ClientResult]


class McpClientSession(ClientSession):
    """Cancels requests at the server, and answers elicitations without blocking other messages.

    Results are not validated against the schemas of servers: a schema may contain a catastrophic pattern.
    """

    def __init__(
        self, streams: Streams, elicit: ElicitationHandler, on_progress: MessageHandlerFnT, on_close: Callable[[], None]
    ) -> None:
        super().__init__(
            *streams,
            elicitation_callback=_advertise_elicitation,
            message_handler=on_progress,
            client_info=types.Implementation(name="deerflow", version=__version__),
        )
        self._receive_notification_type = LenientNotification
        self._elicit = elicit
        self._on_close = on_close
        self._background: set[asyncio.Task[None]] = set()

    async def send_request(
        self,
        request: types.ClientRequest,
        result_type: type[Result],
        request_read_timeout_seconds: timedelta | None = None,
        metadata: MessageMetadata = None,
        progress_callback: ProgressFnT | None = None,
    ) -> Result:
        """Send a request; when the caller is cancelled, cancel the request at the server."""
        request_id = self._request_id
        try:
            return await super().send_request(
                request, result_type, request_read_timeout_seconds, metadata, progress_callback
            )
        except asyncio.CancelledError:
            self._start_background(self._cancel_request(request_id))
            raise

    async def call(self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT) -> types.CallToolResult:
        """Call a tool."""
        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        request = types.ClientRequest(types.CallToolRequest(params=params))
        return await self.send_request(request, types.CallToolResult, progress_callback=on_progress)

    async def fetch_listing(self) -> ServerListing:
        """Return everything the server offers."""
        capabilities = self.get_server_capabilities() or types.ServerCapabilities()
        tools = await read_pages(self.list_tools) if capabilities.tools else []
        prompts = await read_pages(self.list_prompts) if capabilities.prompts else []
        tools_found = [tool for page in tools for tool in page.tools][:MAX_TOOLS]
        prompts_found = [prompt for page in prompts for prompt in page.prompts]
        return ServerListing(
            to_tool_infos(tools_found),
            await self._resources() if capabilities.resources else (),
            to_prompt_infos(prompts_found),
        )

    async def _resources(self) -> tuple[McpResourceInfo, ...]:
        resources = await read_pages(self.list_resources)
        templates: Sequence[types.ListResourceTemplatesResult] = ()
        with suppress(McpError):  # many servers with resources do not support templates
            templates = await read_pages(self.list_resource_templates)
        return to_resource_infos(
            [each for page in resources for each in page.resources],
            [each for page in templates for each in page.resourceTemplates],
        )

    def end(self) -> None:
        """Stop background tasks."""
        for task in self._background:
            task.cancel()

    async def _receive_loop(self) -> None:
        await super()._receive_loop()
        self._on_close()

    async def _received_request(self, responder: Responder) -> None:
        """Handle elicitations in the background: the library would process nothing else while a user thinks."""
        if isinstance(responder.request.root, types.ElicitRequest):
            self._start_background(self._answer(responder, responder.request.root.params))
        else:
            await super()._received_request(responder)

    async def _answer(self, responder: Responder, params: types.ElicitRequestParams) -> None:
        if isinstance(params, types.ElicitRequestURLParams):
            question = Elicitation(params.message, url=params.url)
        else:
            question = Elicitation(params.message, params.requestedSchema)
        reply = await self._elicit(question)
        content = dict(reply.content) if reply.content is not None else None
        with responder:
            await responder.respond(types.ClientResult(types.ElicitResult(action=reply.action, content=content)))

    async def _cancel_request(self, request_id: int) -> None:
        params = types.CancelledNotificationParams(requestId=request_id, reason="cancelled by the client")
        with suppress(TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with asyncio.timeout(CANCEL_S):
                await self.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    def _start_background(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._on_background_done)

    def _on_background_done(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # the session is over; its error is reported elsewhere


class LenientNotification(types.ServerNotification):
    """Notification of a server. An invalid one is ignored; the library would log it with its whole content."""

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        try:
            return super().model_validate(obj, **options)
        except ValidationError:
            nothing = types.LoggingMessageNotificationParams(level="debug", data=None)
            return cls(types.LoggingMessageNotification(params=nothing))


def is_late_response(problem: Exception) -> bool:
    """Return whether the error is a response to a request that was cancelled: servers may be late."""
    return isinstance(problem, RuntimeError) and UNKNOWN_RESPONSE in str(problem)


async def read_pages(read: Callable[..., Awaitable[Page]]) -> list[Page]:
    """Return all pages of a list, up to a limit."""
    tools_found: list[Page] = []
    cursor: str | None = None
    while len(tools_found) < MAX_PAGES:
        page = await read(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        tools_found.append(page)
        cursor = page.nextCursor
        if not cursor:
            break
    return tools_found


async def _advertise_elicitation(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Never called: its presence advertises the elicitation capability."""
    return types.ElicitResult(action="cancel")
