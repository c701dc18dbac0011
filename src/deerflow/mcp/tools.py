"""The tools of servers, as agents use them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.types import interrupt

from deerflow.config.extensions import McpToolConfig
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.tool_marks import FROM_MCP, MCP_TOOL, PREFERRED, SERVER, SOURCE, UNTRUSTED
from deerflow.mcp.asking import question_payload, read_reply
from deerflow.mcp.calls import Address, Block, CallOrder, CallResult, PendingCall, Question
from deerflow.mcp.names import tool_name
from deerflow.mcp.problems import McpProblem
from deerflow.mcp.sessions import SessionPool
from deerflow.mcp.status import ToolCard
from deerflow.sandbox.progress import Progress

CALL_S = 300.0
"""So long a call may take where the configuration does not say."""
TAKEN = frozenset({"self", "config", "run_manager", "runtime"})
ASIDE = "_"

Artifact = dict[str, Any]
Said = str | list[Block]
Act = Callable[..., Awaitable[tuple[Said, Artifact | None]]]


def make_tools(address: Address, cards: Iterable[ToolCard], sessions: SessionPool) -> tuple[BaseTool, ...]:
    """What agents are given; of two tools that would have one name the first stays."""
    tools: dict[str, BaseTool] = {}
    for card in cards:
        name = tool_name(address.server, card.name, prefixed=address.config.tool_name_prefix)
        tools.setdefault(name, make_tool(name, address, card, sessions))
    return tuple(tools.values())


def make_tool(name: str, address: Address, card: ToolCard, sessions: SessionPool) -> BaseTool:
    """One tool; who uses it, and in which thread, its run says."""
    return StructuredTool(
        name=name,
        description=card.description or card.title or card.name,
        args_schema=schema_of(card),
        coroutine=caller(name, address, card, sessions),
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={
            SOURCE: FROM_MCP,
            SERVER: address.server,
            MCP_TOOL: card.name,
            UNTRUSTED: True,
            "annotations": dict(card.annotations),
            **preference(name, address, card),
        },
    )


def preference(name: str, address: Address, card: ToolCard) -> dict[str, Any]:
    """How the configuration puts a tool forward: by an entry for it, or for all tools of its server."""
    own = address.config.tools.get(card.name, McpToolConfig()).routing
    routing = own or address.config.routing
    if routing is None or routing.mode == "off":
        return {}
    subject = name if own else f"the tools of {address.server}"
    return {PREFERRED: {"subject": subject, "priority": routing.priority, "keywords": list(routing.keywords)}}


def for_blind(tool: BaseTool) -> BaseTool:
    """The same tool for a model that cannot look at images, of which its vendor would refuse all."""
    assert isinstance(tool, StructuredTool) and tool.coroutine is not None
    act = tool.coroutine

    async def call(runtime: ToolRuntime[RunContext], **arguments: Any) -> tuple[Said, Artifact | None]:
        said, artifact = await act(runtime=runtime, **arguments)
        return (said if isinstance(said, str) else to_content(without_images(said))), artifact

    return tool.model_copy(update={"coroutine": call})


class Refusal(ToolException):
    """The tool has done its work and says that it failed."""


def to_content(blocks: Sequence[Block]) -> Said:
    """Text alone as a string, which everybody can read; with images, blocks."""
    if any(block["type"] != "text" for block in blocks):
        return list(blocks)
    return "\n\n".join(str(block["text"]) for block in blocks)


def without_images(blocks: Iterable[Block]) -> list[Block]:
    """The same, with words where there are images."""
    return [
        {"type": "text", "text": f"[an image, {block['mime_type']}, which this model cannot see]"}
        if block["type"] == "image"
        else block
        for block in blocks
    ]


def caller(name: str, address: Address, card: ToolCard, sessions: SessionPool) -> Act:
    """What is done when the model uses a tool."""
    timeout_s = timeout_of(address, card)

    async def call(runtime: ToolRuntime[RunContext], **arguments: Any) -> tuple[Said, Artifact | None]:
        run = run_in(runtime.context)
        if run is None:
            raise McpProblem(f"{name} can be used in a run of this server only")
        own = replace(address, user_id=run.user_id, thread_id=run.thread_id)
        call_id = runtime.tool_call_id or ""
        progress = Progress(runtime.stream_writer, call_id, name)
        own_arguments = {own_name(argument): value for argument, value in arguments.items()}
        order = CallOrder(call_id, card.name, own_arguments, can_ask=run.inbox is not None, hear=progress.hear)
        try:
            pending = await begin(sessions, own, order)
            result = await follow(pending, name, timeout_s)
        finally:
            progress.close()
        said = to_content(result.blocks)
        if result.is_error:
            raise Refusal(f"Error: {said if isinstance(said, str) else to_content(without_images(said))}")
        return said, {"structured_content": dict(result.structured)} if result.structured is not None else None

    return call


async def begin(sessions: SessionPool, address: Address, order: CallOrder) -> PendingCall:
    """Start a call, or find the one that was waiting while its run was paused."""
    waiting = sessions.ready(address)
    if waiting is not None and (found := waiting.find(order)):
        return found
    session = await sessions.acquire(address)
    return session.begin(order)


async def follow(pending: PendingCall, name: str, timeout_s: float) -> CallResult:
    """Wait for the end of a call, and let the user answer what is asked meanwhile."""
    for question in pending.answered:
        interrupt(question_payload(name, question))  # answered before: this gives the same answer again
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                happened = await pending.proceed()
        except TimeoutError:
            pending.cancel()
            raise McpProblem(
                f"{name} took longer than {timeout_s:g} s and was stopped; try something smaller"
            ) from None
        except asyncio.CancelledError:
            pending.cancel()
            raise
        if isinstance(happened, CallResult):
            return happened
        pending.answer(read_reply(happened, ask(name, happened)))


def ask(name: str, question: Question) -> object:
    """Pause the run until the user has answered; the call goes on waiting meanwhile."""
    return interrupt(question_payload(name, question))


def timeout_of(address: Address, card: ToolCard) -> float:
    """How long a call may take."""
    own = address.config.tools.get(card.name)
    return (own.tool_call_timeout if own else None) or address.config.tool_call_timeout or CALL_S


def schema_of(card: ToolCard) -> dict[str, Any]:
    """What the model is told of the arguments: an object, whatever the server says."""
    schema = dict(card.input_schema)
    properties = {shown_name(name): field for name, field in (schema.get("properties") or {}).items()}
    required = [shown_name(name) for name in schema.get("required") or ()]
    return {**schema, "type": "object", "properties": properties, "required": required}


def shown_name(argument: str) -> str:
    """What the model calls an argument: not what the library that carries the call uses for itself."""
    return f"{argument}{ASIDE}" if argument in TAKEN else argument


def own_name(argument: str) -> str:
    """What the server calls an argument."""
    bare = argument.removesuffix(ASIDE)
    return bare if bare in TAKEN else argument
