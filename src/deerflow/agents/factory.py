"""Factory of agents: composes the middleware chain and builds the graph."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from itertools import groupby
from typing import Any

from langchain.agents import AgentState, create_agent
from langchain.agents import factory as langchain_factory
from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelCallResult,
    ModelResponse,
    ToolCallRequest,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command
from langsmith import get_current_run_tree, traceable
from langsmith.utils import tracing_is_enabled

from deerflow.agent_support.model_failures import get_model_name
from deerflow.agent_support.replies import (
    AsyncModelHandler,
    AsyncToolHandler,
    ModelHandler,
    Reply,
    Request,
    ToolHandler,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.chain import ChainInputs, build_chain
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.ordering import AnyMiddleware, place_middlewares
from deerflow.agents.spec import AgentGraph
from deerflow.domain.context import RunContext
from deerflow.domain.subagents import TASK
from deerflow.models.openai_compatible.tool_calls import use_linear_parser
from deerflow.subagents.execution import Subagent
from deerflow.subagents.tools import build_standalone_task_tool
from deerflow.subagents.types import GENERAL_PURPOSE
from deerflow.tools.assembly import as_tool, builtin_tools, get_available_tools

STEPS = ("before_agent", "before_model", "after_model", "after_agent")
MODEL_HOOK, TOOL_HOOK = "wrap_model_call", "wrap_tool_call"


def compose(chain: Sequence[AnyMiddleware]) -> list[AnyMiddleware]:
    """Return `chain` with adjacent middlewares that only wrap calls composed into one; other parts stay separate."""
    composed: list[AnyMiddleware] = []
    for only_wraps, group in groupby(chain, is_composable):
        members = list(group)
        composed += compose_hooks(members) if only_wraps and len(members) > 1 else members
    return composed


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
            # A middleware that repeats the call keeps only the updates of the last one.
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


def create_deerflow_agent(
    model: BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., Any]] | None = None,
    *,
    system_prompt: str | None = None,
    middleware: Sequence[AnyMiddleware] | None = None,
    features: RuntimeFeatures | None = None,
    extra_middleware: Sequence[AnyMiddleware] | None = None,
    state_schema: type[AgentState[Any]] | None = None,
    checkpointer: BaseCheckpointSaver[str] | None = None,
    name: str = "default",
) -> AgentGraph:
    """An agent with our chain around `model`.

    Args:
        model: The chat model that answers.
        tools: What it may call; one of the same name as a built-in tool wins over it.
        system_prompt: System prompt of the agent.
        middleware: The whole chain, in place of ours; goes with neither `features` nor `extra_middleware`.
        features: Which built-in middlewares are on, off or replaced; `subagent` also adds the tool `task`.
        extra_middleware: Middlewares of your own, placed by `@Next` and `@Prev`.
        state_schema: A state derived from `ThreadState`.
        checkpointer: Where the agent remembers.
        name: What the graph is called.

    Raises:
        ValueError: arguments that exclude each other, or extras that want the same place.
        TypeError: an extra is not a middleware.
    """
    use_linear_parser()
    given = [tool if isinstance(tool, BaseTool) else as_tool(tool) for tool in tools or ()]
    if middleware is not None:
        if features is not None or extra_middleware is not None:
            raise ValueError("middleware is the whole chain: it goes with neither features nor extra_middleware")
        chain, offered = list(middleware), given
    else:
        switches = features or RuntimeFeatures()
        chain = place_middlewares(build_chain(ChainInputs(switches)), extra_middleware or ())
        offered = list(get_available_tools(builtin=[*given, *select_tools(switches)]).tools)
        if switches.subagent and TASK not in {tool.name for tool in offered}:
            offered.append(build_standalone_task_tool(build_subagent(model, offered, switches, state_schema)))
    return assemble_agent(model, offered, chain, system_prompt, state_schema, checkpointer, name)


def build_subagent(
    model: BaseChatModel,
    tools: Sequence[BaseTool],
    features: RuntimeFeatures,
    state_schema: type[AgentState[Any]] | None,
) -> Subagent:
    """Return a subagent with the model and the tools of its lead agent."""
    kind = GENERAL_PURPOSE
    allowed = [tool for tool in tools if kind.allows(tool.name)]
    chain = build_chain(ChainInputs(features), for_subagent=True)
    graph = assemble_agent(model, allowed, chain, kind.system_prompt, state_schema, None, kind.name)
    return Subagent(kind, graph, get_model_name(model, None))


def select_tools(features: RuntimeFeatures) -> Sequence[BaseTool]:
    """Return the built-in tools of the enabled features."""
    return builtin_tools(supports_vision=bool(features.vision))


def assemble_agent(
    model: BaseChatModel,
    tools: Sequence[BaseTool],
    chain: Sequence[AnyMiddleware],
    system_prompt: str | None,
    state_schema: type[AgentState[Any]] | None,
    checkpointer: BaseCheckpointSaver[str] | None,
    name: str,
) -> AgentGraph:
    """Return the graph of an agent."""
    langchain_factory.traceable = trace_if_enabled  # type: ignore[assignment, attr-defined]
    return create_agent(
        model,
        list(tools),
        system_prompt=system_prompt,
        middleware=compose(chain),
        state_schema=state_schema or ThreadState,
        context_schema=RunContext,
        checkpointer=checkpointer,
        name=name,
    )


def trace_if_enabled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return LangSmith's decorator, without its cost while nothing is traced.

    LangChain puts it around every middleware. It gives its work to a thread, twice for each call, also when it has
    nothing to do.
    """

    def decorate(hook: Callable[..., Any]) -> Callable[..., Any]:
        traced: Callable[..., Any] = traceable(**options)(hook)
        if not iscoroutinefunction(hook):
            return traced

        @wraps(hook)
        async def call(*arguments: Any, **named: Any) -> Any:
            is_traced = tracing_is_enabled() or get_current_run_tree() is not None
            return await (traced if is_traced else hook)(*arguments, **named)

        return call

    return decorate


def build_state_graph(checkpointer: BaseCheckpointSaver[str]) -> AgentGraph:
    """Build a graph that reads and repairs the state in `checkpointer`, independent of models."""
    return create_agent(UnusedModel(), state_schema=ThreadState, context_schema=RunContext, checkpointer=checkpointer)


class UnusedModel(BaseChatModel):
    """Placeholder for a graph that needs a model but never calls it."""

    @property
    def _llm_type(self) -> str:
        return "none"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("a graph that only holds states was asked to answer")
