"""The client side of the protocol: what the `mcp` package does, and three things it does not."""

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
from deerflow.mcp.calls import Question, Reply
from deerflow.mcp.results import prompt_cards, resource_cards, tool_cards
from deerflow.mcp.status import Listing, ResourceCard
from deerflow.mcp.stdio import Streams

UNKNOWN_ANSWER = "unknown request ID"
"""How the library says it."""
CANCEL_S = 2.0
MAX_PAGES = 50
MAX_TOOLS = 1000
Ask = Callable[[Question], Awaitable[Reply]]
Result = TypeVar("Result", bound=BaseModel)
Page = TypeVar("Page", bound=types.PaginatedResult)
Responder = RequestResponder[types.ServerRequest, types.ClientResult]


class Client(ClientSession):
    """Tells the server when nobody waits for an answer, and answers questions beside the rest of the traffic.

    It does not check results against the schemas of servers: a schema can hold a pattern that takes for ever.
    """

    def __init__(self, streams: Streams, ask: Ask, hear: MessageHandlerFnT, on_end: Callable[[], None]) -> None:
        super().__init__(
            *streams,
            elicitation_callback=_say_that_we_can,
            message_handler=hear,
            client_info=types.Implementation(name="deerflow", version=__version__),
        )
        self._receive_notification_type = Patient
        self._ask = ask
        self._on_end = on_end
        self._beside: set[asyncio.Task[None]] = set()

    async def send_request(
        self,
        request: types.ClientRequest,
        result_type: type[Result],
        request_read_timeout_seconds: timedelta | None = None,
        metadata: MessageMetadata = None,
        progress_callback: ProgressFnT | None = None,
    ) -> Result:
        """Ask the server; when whoever waits is cancelled, so is the request."""
        number = self._request_id
        try:
            return await super().send_request(
                request, result_type, request_read_timeout_seconds, metadata, progress_callback
            )
        except asyncio.CancelledError:
            self._begin(self._take_back(number))
            raise

    async def use(self, tool: str, arguments: dict[str, Any], hear: ProgressFnT) -> types.CallToolResult:
        """Call a tool."""
        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        request = types.ClientRequest(types.CallToolRequest(params=params))
        return await self.send_request(request, types.CallToolResult, progress_callback=hear)

    async def listing(self) -> Listing:
        """Everything the server offers."""
        can = self.get_server_capabilities() or types.ServerCapabilities()
        tools = await pages(self.list_tools) if can.tools else []
        prompts = await pages(self.list_prompts) if can.prompts else []
        found = [tool for page in tools for tool in page.tools][:MAX_TOOLS]
        offered = [prompt for page in prompts for prompt in page.prompts]
        return Listing(tool_cards(found), await self._resources() if can.resources else (), prompt_cards(offered))

    async def _resources(self) -> tuple[ResourceCard, ...]:
        resources = await pages(self.list_resources)
        templates: Sequence[types.ListResourceTemplatesResult] = ()
        with suppress(McpError):  # many servers that have resources know nothing of templates
            templates = await pages(self.list_resource_templates)
        return resource_cards(
            [each for page in resources for each in page.resources],
            [each for page in templates for each in page.resourceTemplates],
        )

    def end(self) -> None:
        """Stop what is done beside."""
        for task in self._beside:
            task.cancel()

    async def _receive_loop(self) -> None:
        await super()._receive_loop()
        self._on_end()

    async def _received_request(self, responder: Responder) -> None:
        """The library would hear nothing else while a person thinks about an answer."""
        if isinstance(responder.request.root, types.ElicitRequest):
            self._begin(self._answer(responder, responder.request.root.params))
        else:
            await super()._received_request(responder)

    async def _answer(self, responder: Responder, params: types.ElicitRequestParams) -> None:
        if isinstance(params, types.ElicitRequestURLParams):
            question = Question(params.message, url=params.url)
        else:
            question = Question(params.message, params.requestedSchema)
        reply = await self._ask(question)
        content = dict(reply.content) if reply.content is not None else None
        with responder:
            await responder.respond(types.ClientResult(types.ElicitResult(action=reply.action, content=content)))

    async def _take_back(self, number: int) -> None:
        params = types.CancelledNotificationParams(requestId=number, reason="nobody waits for it any more")
        with suppress(TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with asyncio.timeout(CANCEL_S):
                await self.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._end_beside)

    def _end_beside(self, task: "asyncio.Task[None]") -> None:
        self._beside.discard(task)
        if not task.cancelled():
            task.exception()  # the session is over; whoever waits for it is told why


class Patient(types.ServerNotification):
    """A notice of a server; one that makes no sense is passed over, which the library would log with all it holds."""

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        try:
            return super().model_validate(obj, **options)
        except ValidationError:
            nothing = types.LoggingMessageNotificationParams(level="debug", data=None)
            return cls(types.LoggingMessageNotification(params=nothing))


def is_about_nothing(problem: Exception) -> bool:
    """Whether it is an answer to a question that nobody asks any more: servers may be late."""
    return isinstance(problem, RuntimeError) and UNKNOWN_ANSWER in str(problem)


async def pages(read: Callable[..., Awaitable[Page]]) -> list[Page]:
    """All pages of a list, as far as is sensible."""
    found: list[Page] = []
    cursor: str | None = None
    while len(found) < MAX_PAGES:
        page = await read(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        found.append(page)
        cursor = page.nextCursor
        if not cursor:
            break
    return found


async def _say_that_we_can(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Never called: that there is one tells the server that questions are answered."""
    return types.ElicitResult(action="cancel")
