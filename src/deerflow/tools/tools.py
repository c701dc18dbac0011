"""Which tools an agent gets: from the configuration, built in, from MCP servers, from other agents."""

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from langchain_core.tools import BaseTool
from pydantic import ValidationError

from deerflow.config.imports import load_object
from deerflow.config.tools import ToolConfig
from deerflow.domain.errors import ConfigError
from deerflow.domain.tool_marks import CONFIGURED, SOURCE
from deerflow.sandbox import tools as sandbox
from deerflow.tools.builtins.clarification_tool import ask_clarification_tool
from deerflow.tools.builtins.list_uploaded_files_tool import list_uploaded_files
from deerflow.tools.builtins.present_files_tool import present_files
from deerflow.tools.builtins.search_history_tool import search_history
from deerflow.tools.builtins.view_image_tool import view_image
from deerflow.tools.functions import as_tool, check_settings

__all__ = ["ToolSet", "as_tool", "builtin_tools", "default_names", "get_available_tools", "sandbox_tools"]

logger = logging.getLogger(__name__)

HOST_BASH_GROUP = "bash"
OURS = "deerflow."
HOST_BASH_TOOL = "deerflow.sandbox.tools:bash_tool"
# Functions, which become tools with the first agent: a server that starts need not wait for their schemas.
BUILTIN_TOOLS = (present_files, ask_clarification_tool, list_uploaded_files, search_history)
SANDBOX_TOOLS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    HOST_BASH_GROUP: (sandbox.bash, sandbox.bash_output, sandbox.bash_kill),
    "file:read": (sandbox.ls, sandbox.glob, sandbox.grep, sandbox.read_file),
    "file:write": (sandbox.write_file, sandbox.str_replace),
}


@runtime_checkable
class Configurable(Protocol):
    """A tool of which there can be others with settings of their own."""

    @property
    def setting_names(self) -> Sequence[str]: ...
    def configured(self, settings: Mapping[str, object]) -> BaseTool: ...


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of an agent, in the order the model sees them, and the names of those a person has to approve."""

    tools: tuple[BaseTool, ...] = ()
    needs_approval: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)


def get_available_tools(
    configured: Sequence[ToolConfig] = (),
    *,
    groups: Collection[str] | None = None,
    builtin: Sequence[BaseTool] = (),
    mcp: Sequence[BaseTool] = (),
    acp: Sequence[BaseTool] = (),
    allow_bash: bool = True,
) -> ToolSet:
    """Everything an agent may use; of two tools with one name the first one stays.

    Args:
        configured: The entries of `tools:`.
        groups: The groups of configured tools to take; all when None.
        builtin: See `builtin_tools` and `sandbox_tools`. One that is configured by the same name is left out.
        mcp: The tools of MCP servers.
        acp: The tool that asks other agents.
        allow_bash: Whether configured tools may run commands: there is isolation, or the user does without.

    Raises:
        ConfigError: An entry names no tool, or gives it a setting it does not have.
    """
    entries = [entry for entry in configured if is_wanted(entry, groups, allow_bash)]
    loaded = [load_tool(entry) for entry in entries]
    own_names = {tool.name for tool in loaded}
    builtin = [tool for tool in builtin if tool.name not in own_names]
    sources = [("the configuration", loaded), ("the built-in tools", builtin), ("MCP", mcp), ("ACP", acp)]
    chosen = first_of_each_name((source, tool) for source, tools in sources for tool in tools)
    # Told twice, once with approval: the careful reading holds.
    approved = [tool.name for entry, tool in zip(entries, loaded, strict=True) if entry.approval == "always"]
    return ToolSet(tuple(chosen), frozenset(approved))


def builtin_tools(*, supports_vision: bool = False) -> tuple[BaseTool, ...]:
    """The tools that need nothing but a run; one more where the model reads images."""
    functions = (*BUILTIN_TOOLS, view_image) if supports_vision else BUILTIN_TOOLS
    return tuple(each if isinstance(each, BaseTool) else as_tool(each) for each in functions)


def sandbox_tools(groups: Collection[str] | None = None, *, allow_bash: bool = True) -> tuple[BaseTool, ...]:
    """The tools for an agent's computer; of some groups, or of all when None."""
    return tuple(as_tool(function) for function in sandbox_functions(groups, allow_bash))


def default_names(*, has_computer: bool, allow_bash: bool) -> tuple[str, ...]:
    """What the tools of an agent are called that has every built-in one; known without building them."""
    computer = sandbox_functions(None, allow_bash) if has_computer else ()
    builtin = (each.name if isinstance(each, BaseTool) else each.__name__ for each in BUILTIN_TOOLS)
    return (*(function.__name__ for function in computer), *builtin)


def sandbox_functions(groups: Collection[str] | None, allow_bash: bool) -> tuple[Callable[..., Any], ...]:
    """What becomes the tools for an agent's computer."""
    wanted = [
        group
        for group in SANDBOX_TOOLS
        if (groups is None or group in groups) and (allow_bash or group != HOST_BASH_GROUP)
    ]
    return tuple(function for group in wanted for function in SANDBOX_TOOLS[group])


def is_wanted(entry: ToolConfig, groups: Collection[str] | None, allow_bash: bool) -> bool:
    """Whether an entry belongs to the wanted groups and may be used here."""
    runs_commands = entry.group == HOST_BASH_GROUP or entry.use == HOST_BASH_TOOL
    if runs_commands and not allow_bash:
        logger.info("tool %r is left out: commands would run without isolation", entry.name)
        return False
    return groups is None or entry.group in groups


def load_tool(entry: ToolConfig) -> BaseTool:
    """The tool an entry names: a tool, a tool class, or a function that becomes one."""
    found = load_object(entry.use)
    try:
        tool = make_tool(found, entry.settings)
    except (ConfigError, ValidationError, TypeError, ValueError) as error:
        raise ConfigError(f"tools: {entry.name!r} ({entry.use}): {error}") from error
    if tool.name != entry.name:
        logger.warning("tool %r calls itself %r, and so does the model", entry.name, tool.name)
    if entry.use.startswith(OURS):
        return tool
    # A copy: the same tool may be used by others, and elsewhere.
    return tool.model_copy(update={"metadata": {SOURCE: CONFIGURED, **(tool.metadata or {})}})


def make_tool(found: object, settings: dict[str, Any]) -> BaseTool:
    """What an entry's `use` has led to, as a tool with the entry's settings."""
    if isinstance(found, type) and issubclass(found, BaseTool):
        check_settings(found.__name__, found.model_fields, settings)
        return found(**settings)
    if isinstance(found, BaseTool):
        if isinstance(found, Configurable):
            check_settings(found.name, found.setting_names, settings)
            return found.configured(settings)
        check_settings(found.name, (), settings)
        return found
    if inspect.isfunction(found):
        return as_tool(found, **settings)
    raise ConfigError(f"is a {type(found).__name__}, neither a tool nor a function")


def first_of_each_name(tools: Iterable[tuple[str, BaseTool]]) -> list[BaseTool]:
    """The tools in order; one whose name is taken is left out and told of."""
    taken: dict[str, str] = {}
    chosen = []
    for source, tool in tools:
        if tool.name in taken:
            logger.warning("tool %r of %s is left out: %s has one of that name", tool.name, source, taken[tool.name])
            continue
        taken[tool.name] = source
        chosen.append(tool)
    return chosen
