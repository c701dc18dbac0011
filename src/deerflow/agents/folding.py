"""Hands LangChain a whole chain as one middleware.

LangChain traces every `wrap_*` hook by itself, which takes two trips to a thread for each, traced or not: with twenty
of them around a model call that is most of what the call costs.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelCallResult, ToolCallRequest
from langchain_core.messages import AIMessage
from langgraph.types import Command

from deerflow.agents.anchors import AnyMiddleware
from deerflow.agents.middlewares.replies import AskModel, AskModelAsync, Reply, Request, RunTool, RunToolAsync

STEPS = ("before_agent", "before_model", "after_model", "after_agent")
MODEL_HOOK, TOOL_HOOK = "wrap_model_call", "wrap_tool_call"


def fold(chain: Sequence[AnyMiddleware]) -> list[AnyMiddleware]:
    """`chain` with those that stand side by side and only wrap calls made one; what they bring along stays theirs."""
    folded: list[AnyMiddleware] = []
    for only_wraps, group in groupby(chain, can_be_folded):
        members = list(group)
        folded += around_calls(members) if only_wraps and len(members) > 1 else members
    return folded


def can_be_folded(middleware: AnyMiddleware) -> bool:
    """Whether it has no step of its own in the graph, and no wish of its own for its trace."""
    return middleware.trace_policy is None and not any(has_hook(middleware, step) for step in STEPS)


def has_hook(middleware: AnyMiddleware, hook: str) -> bool:
    """Whether a middleware has a hook, in one colour or the other."""
    base, own = AgentMiddleware, type(middleware)
    return any(getattr(own, name) is not getattr(base, name) for name in (hook, f"a{hook}"))


def around_calls(members: Sequence[AnyMiddleware]) -> Iterator[AnyMiddleware]:
    """The hooks of all as those of one, then what else each of them has."""
    if asking := [member for member in members if has_hook(member, MODEL_HOOK)]:
        yield AroundModel(asking)
    if acting := [member for member in members if has_hook(member, TOOL_HOOK)]:
        yield AroundTools(acting)
    yield from map(Baggage, members)


class Baggage(AnyMiddleware):
    """What a middleware has besides its hooks."""

    def __init__(self, owner: AnyMiddleware) -> None:
        self.state_schema = owner.state_schema
        self.tools = getattr(owner, "tools", ())
        self.transformers = owner.transformers
        self._name = owner.name

    @property
    def name(self) -> str:
        """Its owner's."""
        return self._name


class Around(AnyMiddleware):
    """Several middlewares that LangChain takes for one."""

    def __init__(self, members: Sequence[AnyMiddleware]) -> None:
        """`members`: the first is outermost."""
        self._members = tuple(members)

    @property
    def name(self) -> str:
        """Says where in the chain it stands: there may be several."""
        return f"{type(self).__name__}({self._members[0].name}…)"


class AroundModel(Around):
    """All that stands around a model call."""

    def wrap_model_call(self, request: Request, handler: AskModel) -> ModelCallResult[Any]:
        """Ask through all of them."""
        return self._ask(0, request, handler)

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> ModelCallResult[Any]:
        """Ask through all of them."""
        return await self._aask(0, request, handler)

    def _ask(self, place: int, request: Request, handler: AskModel) -> ModelCallResult[Any]:
        if place == len(self._members):
            return handler(request)
        below: list[Command[Any]] = []

        def inner(changed: Request) -> Reply:
            reply, below[:] = taken_apart(self._ask(place + 1, changed, handler))
            return reply

        return put_together(self._members[place].wrap_model_call(request, inner), below)

    async def _aask(self, place: int, request: Request, handler: AskModelAsync) -> ModelCallResult[Any]:
        if place == len(self._members):
            return await handler(request)
        below: list[Command[Any]] = []

        async def inner(changed: Request) -> Reply:
            # Whoever asks again keeps only what came of the last time.
            reply, below[:] = taken_apart(await self._aask(place + 1, changed, handler))
            return reply

        return put_together(await self._members[place].awrap_model_call(request, inner), below)


class AroundTools(Around):
    """All that stands around a tool call."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Any]) -> Any:
        """Call through all of them."""
        return self._call(0, request, handler)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Any]) -> Any:
        """Call through all of them."""
        return await self._acall(0, request, handler)

    def _call(self, place: int, request: ToolCallRequest, handler: RunTool[Any]) -> Any:
        if place == len(self._members):
            return handler(request)
        return self._members[place].wrap_tool_call(request, lambda inner: self._call(place + 1, inner, handler))

    async def _acall(self, place: int, request: ToolCallRequest, handler: RunToolAsync[Any]) -> Any:
        if place == len(self._members):
            return await handler(request)
        inner = self._members[place].awrap_tool_call
        return await inner(request, lambda changed: self._acall(place + 1, changed, handler))


def taken_apart(result: ModelCallResult[Any]) -> tuple[Reply, list[Command[Any]]]:
    """The reply, and what is to be written besides."""
    if isinstance(result, AIMessage):
        return Reply(result=[result]), []
    if isinstance(result, ExtendedModelResponse):
        return result.model_response, [result.command] if result.command is not None else []
    return result, []


def put_together(result: ModelCallResult[Any], below: Sequence[Command[Any]]) -> ModelCallResult[Any]:
    """A result with what those further in want to have written, theirs first."""
    if not below:
        return result
    reply, own = taken_apart(result)
    return ExtendedModelResponse(reply, merged([*below, *own]))


def merged(commands: Sequence[Command[Any]]) -> Command[Any]:
    """All that commands write, one after the other, as one command."""
    for command in commands:
        if len(commands) == 1 or command.goto or command.resume is not None or command.graph is not None:
            return command  # what is more than writing is refused by LangChain, in its own words
    return Command(update=[pair for command in commands for pair in pairs(command.update)])


def pairs(update: Any) -> Sequence[tuple[str, Any]]:
    """What is written, in order."""
    return list(update) if isinstance(update, list | tuple) else list(dict(update or {}).items())
