"""Composition of a middleware chain into a single LangChain middleware."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelCallResult,
    ModelResponse,
    ToolCallRequest,
)
from langchain_core.messages import AIMessage
from langgraph.types import Command

from deerflow.agent_support.replies import (
    AsyncModelHandler,
    AsyncToolHandler,
    ModelHandler,
    Reply,
    Request,
    ToolHandler,
)
from deerflow.agents.ordering import AnyMiddleware

STEPS = ("before_agent", "before_model", "after_model", "after_agent")
MODEL_HOOK, TOOL_HOOK = "wrap_model_call", "wrap_tool_call"


def compose(chain: Sequence[AnyMiddleware]) -> list[AnyMiddleware]:
    """Return `chain` with adjacent middlewares that only wrap calls composed into one; other parts stay separate."""
    folded: list[AnyMiddleware] = []
    for only_wraps, group in groupby(chain, is_composable):
        members = list(group)
        folded += compose_hooks(members) if only_wraps and len(members) > 1 else members
    return folded


def is_composable(middleware: AnyMiddleware) -> bool:
    """Return whether a middleware has no graph node of its own and no special tracing."""
    return middleware.trace_policy is None and not any(has_hook(middleware, step) for step in STEPS)


def has_hook(middleware: AnyMiddleware, hook: str) -> bool:
    """Return whether a middleware has a hook, sync or async."""
    base, own = AgentMiddleware, type(middleware)
    return any(getattr(own, name) is not getattr(base, name) for name in (hook, f"a{hook}"))


def compose_hooks(members: Sequence[AnyMiddleware]) -> Iterator[AnyMiddleware]:
    """Return one middleware for all hooks, followed by the metadata of each."""
    if asking := [member for member in members if has_hook(member, MODEL_HOOK)]:
        yield ComposedModelCalls(asking)
    if acting := [member for member in members if has_hook(member, TOOL_HOOK)]:
        yield ComposedToolCalls(acting)
    yield from map(MiddlewareMetadata, members)


class MiddlewareMetadata(AnyMiddleware):
    """State schema and tools of a middleware, without its hooks."""

    def __init__(self, owner: AnyMiddleware) -> None:
        self.state_schema = owner.state_schema
        self.tools = getattr(owner, "tools", ())
        self.transformers = owner.transformers
        self._name = owner.name

    @property
    def name(self) -> str:
        """Name of the original middleware."""
        return self._name


class ComposedMiddleware(AnyMiddleware):
    """Several middlewares that LangChain treats as one."""

    def __init__(self, members: Sequence[AnyMiddleware]) -> None:
        """`members`: the first is outermost."""
        self._members = tuple(members)

    @property
    def name(self) -> str:
        """Name with the position in the chain: there may be several."""
        return f"{type(self).__name__}({self._members[0].name}…)"


class ComposedModelCalls(ComposedMiddleware):
    """Composition of the hooks around model calls."""

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> ModelCallResult[Any]:
        """Call the model through all members."""
        return self._ask(0, request, handler)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> ModelCallResult[Any]:
        """Call the model through all members."""
        return await self._aask(0, request, handler)

    def _ask(self, place: int, request: Request, handler: ModelHandler) -> ModelCallResult[Any]:
        if place == len(self._members):
            return handler(request)
        below: list[Command[Any]] = []

        def inner(changed: Request) -> Reply:
            reply, below[:] = split_reply(self._ask(place + 1, changed, handler))
            return reply

        return merge_reply(self._members[place].wrap_model_call(request, inner), below)

    async def _aask(self, place: int, request: Request, handler: AsyncModelHandler) -> ModelCallResult[Any]:
        if place == len(self._members):
            await asyncio.sleep(0)  # clients convert the whole history at once, and so have some middlewares
            return await handler(request)
        below: list[Command[Any]] = []

        async def inner(changed: Request) -> Reply:
            # Whoever asks again keeps only what came of the last time.
            reply, below[:] = split_reply(await self._aask(place + 1, changed, handler))
            return reply

        return merge_reply(await self._members[place].awrap_model_call(request, inner), below)


class ComposedToolCalls(ComposedMiddleware):
    """Composition of the hooks around tool calls."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Any]) -> Any:
        """Call the tool through all members."""
        return self._call(0, request, handler)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Any]) -> Any:
        """Call the tool through all members."""
        return await self._acall(0, request, handler)

    def _call(self, place: int, request: ToolCallRequest, handler: ToolHandler[Any]) -> Any:
        if place == len(self._members):
            return handler(request)
        return self._members[place].wrap_tool_call(request, lambda inner: self._call(place + 1, inner, handler))

    async def _acall(self, place: int, request: ToolCallRequest, handler: AsyncToolHandler[Any]) -> Any:
        if place == len(self._members):
            return await handler(request)
        inner = self._members[place].awrap_tool_call
        return await inner(request, lambda changed: self._acall(place + 1, changed, handler))


def split_reply(result: ModelCallResult[Any]) -> tuple[Reply, list[Command[Any]]]:
    """Return the reply and its state updates."""
    if isinstance(result, AIMessage):
        return ModelResponse(result=[result]), []
    if isinstance(result, ExtendedModelResponse):
        return result.model_response, [result.command] if result.command is not None else []
    return result, []


def merge_reply(result: ModelCallResult[Any], below: Sequence[Command[Any]]) -> ModelCallResult[Any]:
    """Return a result with the state updates of inner members first."""
    if not below:
        return result
    reply, own = split_reply(result)
    return ExtendedModelResponse(reply, merge_commands([*below, *own]))


def merge_commands(commands: Sequence[Command[Any]]) -> Command[Any]:
    """Return one command with the updates of several, in order."""
    for command in commands:
        if len(commands) == 1 or command.goto or command.resume is not None or command.graph is not None:
            return command  # what is more than writing is refused by LangChain, in its own words
    return Command(update=[pair for command in commands for pair in update_pairs(command.update)])


def update_pairs(update: Any) -> Sequence[tuple[str, Any]]:
    """Return the updates of a command as pairs, in order."""
    return list(update) if isinstance(update, list | tuple) else list(dict(update or {}).items())
