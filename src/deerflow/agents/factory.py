"""An agent from plain arguments, without any configuration."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import AgentState, create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.anchors import AnyMiddleware, place_extras
from deerflow.agents.chain import Ingredients, build_chain
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.folding import fold
from deerflow.agents.graph import AgentGraph
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext
from deerflow.tools.tools import as_tool, builtin_tools, get_available_tools


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
    given = [tool if isinstance(tool, BaseTool) else as_tool(tool) for tool in tools or ()]
    if middleware is not None:
        if features is not None or extra_middleware is not None:
            raise ValueError("middleware is the whole chain: it goes with neither features nor extra_middleware")
        chain, offered = list(middleware), given
    else:
        switches = features or RuntimeFeatures()
        chain = place_extras(build_chain(Ingredients(switches)), extra_middleware or ())
        offered = list(get_available_tools(builtin=[*given, *tools_for(switches)]).tools)
    return assemble(model, offered, chain, system_prompt, state_schema, checkpointer, name)


def tools_for(features: RuntimeFeatures) -> Sequence[BaseTool]:
    """The built-in tools that belong to what is switched on."""
    return builtin_tools(supports_vision=bool(features.vision))


def assemble(
    model: BaseChatModel,
    tools: Sequence[BaseTool],
    chain: Sequence[AnyMiddleware],
    system_prompt: str | None,
    state_schema: type[AgentState[Any]] | None,
    checkpointer: BaseCheckpointSaver[str] | None,
    name: str,
    context_schema: type[RunContext] | None = RunContext,
) -> AgentGraph:
    """The graph of an agent; without a `context_schema` it takes whatever context it is given."""
    return create_agent(
        model,
        list(tools),
        system_prompt=system_prompt,
        middleware=fold(chain),
        state_schema=state_schema or ThreadState,
        context_schema=context_schema,
        checkpointer=checkpointer,
        name=name,
    )
