"""Functions as tools: the docstring is for the model, and settings are not asked of it."""

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, partial, update_wrapper
from typing import Any, cast, get_origin

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools.base import create_schema_from_function
from langchain_core.utils.pydantic import TypeBaseModel

from deerflow.domain.errors import ConfigError
from deerflow.domain.ledger import READ_ONLY, RESUMABLE


@dataclass(frozen=True, slots=True)
class Described:
    """A function and what the model is told of its arguments, which takes milliseconds to find out."""

    function: Callable[..., Any]
    schema: TypeBaseModel

    def as_tool(self, **settings: object) -> BaseTool:
        """The tool, with those arguments given that were described as settings."""
        awaited = inspect.iscoroutinefunction(self.function)
        call = with_settings(self.function, settings)
        return StructuredTool(
            name=self.function.__name__,
            description=self.schema.__doc__ or self.function.__name__,
            args_schema=self.schema,
            func=None if awaited else call,
            coroutine=call if awaited else None,
            metadata={mark: True for mark in (READ_ONLY, RESUMABLE) if getattr(self.function, mark, False)} or None,
        )


@cache  # of the same functions every time, whatever the agent
def describe(function: Callable[..., Any], *settings: str) -> Described:
    """What the model is told of `function` when `settings` are given by somebody else.

    Raises:
        ConfigError: The function takes no such setting.
    """
    name = function.__name__
    check_settings(name, inspect.signature(function).parameters, settings)
    # "callbacks" is what the library leaves out by itself when it is given no list.
    left_out = [*settings, "callbacks"]
    told = without_runtime(function, settings)
    return Described(function, create_schema_from_function(name, told, filter_args=left_out, parse_docstring=True))


def as_tool(function: Callable[..., Any], **settings: object) -> BaseTool:
    """A tool that calls `function` with `settings` and what the model gives.

    Raises:
        ConfigError: The function takes no such setting.
    """
    return describe(function, *settings).as_tool(**settings)


def check_settings(name: str, known: Collection[str], settings: Collection[str]) -> None:
    """Refuse settings that would have no effect."""
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise ConfigError(f"{name!r} has no setting {', '.join(map(repr, unknown))}")


def without_runtime(function: Callable[..., Any], settings: Collection[str]) -> Callable[..., Any]:
    """What looks like `function` without what the graph gives it.

    Otherwise the library would describe all that a run carries, for each tool anew, and copy it with every call.
    """
    signature = inspect.signature(function)
    rest = [each for each in signature.parameters.values() if not is_runtime(each.annotation)]
    if all(each.name in settings for each in rest):
        return function  # a tool that asks the model for nothing is given nothing at all

    def told() -> None: ...

    update_wrapper(told, function)
    cast(Any, told).__signature__ = signature.replace(parameters=rest)
    return told


def is_runtime(annotation: object) -> bool:
    """Whether an argument of this type is given by the graph."""
    return (get_origin(annotation) or annotation) is ToolRuntime


def with_settings(function: Callable[..., Any], settings: dict[str, Any]) -> Callable[..., Any]:
    """`function` with `settings` given."""
    if not settings:
        return function
    bound = partial(function, **settings)
    # The graph looks at annotations to find out what it has to give to a tool, and a partial has none.
    bound.__annotations__ = function.__annotations__
    return bound
