"""Helpers to write tools: access to the run context, tools made from functions, and texts for the model."""

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache, partial, update_wrapper
from typing import Any, get_origin

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig, run_in_executor
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langchain_core.tools.base import create_schema_from_function
from langchain_core.utils.pydantic import TypeBaseModel
from langgraph.types import Command

from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import ConfigError, DeerFlowError
from deerflow.domain.tools import CHANGES_FILES, READ_ONLY, RESUMABLE

MARKS = (READ_ONLY, RESUMABLE, CHANGES_FILES)
Block = dict[str, Any]
"""Content block of LangChain."""
ToolContent = str | list[Block]
Artifact = dict[str, Any]


class NoRunContext(DeerFlowError):
    """A tool that needs a run was used in a graph without one."""


def require_run_context(runtime: ToolRuntime[RunContext]) -> RunContext:
    """Return the context of the run a tool was called in.

    Raises:
        NoRunContext: The graph was invoked without `context=RunContext(…)`.
    """
    run = find_run_context(runtime.context)
    if run is None:
        raise NoRunContext("this tool works only inside a run; invoke the graph with context=RunContext(…)")
    return run


def respond_with_update(runtime: ToolRuntime[RunContext], text: str, **update: Any) -> Command[Any]:
    """Return a command with the tool's text and its update of the thread state."""
    return Command(update={**update, "messages": [ToolMessage(text, tool_call_id=runtime.tool_call_id)]})


@dataclass(frozen=True, slots=True)
class DescribedFunction:
    """Function with the tool that describes it to models. The schema takes milliseconds to compute."""

    function: Callable[..., Any]
    template: StructuredTool

    def as_tool(self, **settings: object) -> BaseTool:
        """Return the tool with `settings` bound."""
        field = "coroutine" if self.template.coroutine else "func"
        return self.template.model_copy(update={field: bind_settings(self.function, settings)})


@cache  # all agents use the same functions
def describe_function(function: Callable[..., Any], *settings: str) -> DescribedFunction:
    """Return `function` with its description; `settings` are bound later and not shown to the model.

    Raises:
        ConfigError: The function has no such parameter.
    """
    name = function.__name__
    check_settings(name, inspect.signature(function).parameters, settings)
    # LangChain leaves out "callbacks" itself when it gets no list.
    left_out = [*settings, "callbacks"]
    visible = hide_runtime(function, settings)
    schema = create_schema_from_function(name, visible, filter_args=left_out, parse_docstring=True)
    awaited = inspect.iscoroutinefunction(function)
    template = StructuredTool(
        name=name,
        description=schema.__doc__ or name,
        args_schema=schema,
        func=None if awaited else function,
        coroutine=function if awaited else None,
        metadata={mark: True for mark in MARKS if getattr(function, mark, False)} or None,
    )
    _ = template.tool_call_schema  # computed once; copies of the template keep it
    return DescribedFunction(function, template)


def as_tool(function: Callable[..., Any], **settings: object) -> BaseTool:
    """Return a tool that calls `function` with `settings` and the arguments of the model.

    Raises:
        ConfigError: The function has no such parameter.
    """
    return describe_function(function, *settings).as_tool(**settings)


def check_settings(name: str, known: Collection[str], settings: Collection[str]) -> None:
    """Raise an error for settings that would have no effect."""
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise ConfigError(f"{name!r} has no setting {', '.join(map(repr, unknown))}")


def hide_runtime(function: Callable[..., Any], settings: Collection[str]) -> Callable[..., Any]:
    """Return a function with the signature of `function` without injected parameters.

    Otherwise LangChain would build a schema of the whole run context for each tool, and copy it with every call.
    """
    signature = inspect.signature(function)
    rest = [each for each in signature.parameters.values() if not is_runtime_type(each.annotation)]
    if all(each.name in settings for each in rest):
        return function  # LangChain injects nothing into a tool without arguments

    def visible() -> None: ...

    update_wrapper(visible, function)
    visible.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    return visible


def is_runtime_type(annotation: object) -> bool:
    """Return whether a parameter of this type is injected by the graph."""
    return (get_origin(annotation) or annotation) is ToolRuntime


def bind_settings(function: Callable[..., Any], settings: dict[str, Any]) -> Callable[..., Any]:
    """Return `function` with `settings` bound."""
    if not settings:
        return function
    bound = partial(function, **settings)
    # The graph reads annotations to find injected parameters, and a partial has none.
    bound.__annotations__ = function.__annotations__
    return bound


def is_blocking(tool: BaseTool) -> bool:
    """Return True if a tool has no asynchronous implementation."""
    kind = type(tool)
    if isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is None and kind.ainvoke in (StructuredTool.ainvoke, Tool.ainvoke)
    return kind._arun is BaseTool._arun and kind.ainvoke is BaseTool.ainvoke


class ThreadedTool(BaseTool):
    """Tool that calls a synchronous tool in a pool of threads. A call waits until a thread is free."""

    tool: BaseTool
    threads: Executor

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        call = partial(copy_context().run, self.tool.invoke, input, config, **kwargs)
        return await run_in_executor(self.threads, call)

    def get_input_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        return self.tool.get_input_schema(config)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return self.tool._run(*args, **kwargs)


def run_in_threads(tool: BaseTool, threads: Executor) -> BaseTool:
    """Return a synchronous tool whose asynchronous calls use `threads` and not the default executor."""
    return ThreadedTool(name=tool.name, description=tool.description, tool=tool, threads=threads)


def escape_line(name: str) -> str:
    """Return `name` with non-printable characters escaped, so that it stays on one line."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in name)


def format_size(size: int) -> str:
    """Return a number of bytes for display."""
    amount = float(size)
    for unit in ("B", "KB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"


def make_text_only(tool: BaseTool) -> BaseTool:
    """Return the asynchronous tool for a model without vision, whose vendor would reject images."""
    assert isinstance(tool, StructuredTool) and tool.coroutine is not None
    act = tool.coroutine

    async def call(runtime: ToolRuntime[RunContext], **arguments: Any) -> tuple[ToolContent, Artifact | None]:
        content, artifact = await act(runtime=runtime, **arguments)
        return (content if isinstance(content, str) else to_content(replace_images(content))), artifact

    return tool.model_copy(update={"coroutine": call})


def to_content(blocks: Sequence[Block]) -> ToolContent:
    """Return a string for text alone, which every model accepts; blocks when there are images."""
    if any(block["type"] != "text" for block in blocks):
        return list(blocks)
    return "\n\n".join(str(block["text"]) for block in blocks)


def replace_images(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks with images replaced by a note."""
    return [
        {"type": "text", "text": f"[an image, {block['mime_type']}, which this model cannot see]"}
        if block["type"] == "image"
        else block
        for block in blocks
    ]
