"""Factory of agents without a configuration."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from langchain.agents import AgentState, create_agent
from langchain.agents import factory as langchain_factory
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langsmith import get_current_run_tree, traceable
from langsmith.utils import tracing_is_enabled

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.chain import ChainInputs, build_chain
from deerflow.agents.compose import compose
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.ordering import AnyMiddleware, place_middlewares
from deerflow.agents.spec import AgentGraph
from deerflow.domain.context import RunContext
from deerflow.models.openai_compatible.tool_calls import use_linear_parser
from deerflow.tools.assembly import as_tool, builtin_tools, get_available_tools


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
        system_prompt: What it is told about itself.
        middleware: The whole chain, in place of ours; goes with neither `features` nor `extra_middleware`.
        features: Which built-in middlewares are on, off or replaced.
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
    return assemble_agent(model, offered, chain, system_prompt, state_schema, checkpointer, name)


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
