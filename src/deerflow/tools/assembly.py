"""Assembly of an agent's tools: configured, built-in, MCP and ACP."""

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from langchain_core.tools import BaseTool
from pydantic import ValidationError

from deerflow.agent_support.tools import as_tool, check_settings
from deerflow.config.imports import load_object
from deerflow.config.sections.tools import ToolConfig
from deerflow.domain.errors import ConfigError
from deerflow.domain.tools import CONFIGURED_SOURCE, PREFERRED, SOURCE
from deerflow.sandbox import tools as sandbox
from deerflow.tools.builtins import ask_clarification_tool, present_files, search_history, view_image
from deerflow.uploads.tools import list_uploaded_files

__all__ = ["ToolSet", "as_tool", "builtin_tools", "list_default_tool_names", "get_available_tools", "sandbox_tools"]

logger = logging.getLogger(__name__)

HOST_BASH_GROUP = "bash"
BUILTIN_PREFIX = "deerflow."
HOST_BASH_TOOL = "deerflow.sandbox.tools:bash_tool"
# Functions are converted to tools with the first agent, so that the server starts without building their schemas.
BUILTIN_TOOLS = (present_files, ask_clarification_tool, list_uploaded_files, search_history)
SANDBOX_TOOLS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    HOST_BASH_GROUP: (sandbox.bash, sandbox.bash_output, sandbox.bash_kill),
    "file:read": (sandbox.ls, sandbox.glob, sandbox.grep, sandbox.read_file),
    "file:write": (sandbox.write_file, sandbox.str_replace),
}


@runtime_checkable
class ConfigurableTool(Protocol):
    """A tool that can be copied with other settings."""

    @property
    def setting_names(self) -> Sequence[str]: ...
    def with_settings(self, settings: Mapping[str, object]) -> BaseTool: ...


@dataclass(frozen=True, slots=True)
class ToolSet:
    """Tools of an agent in the order shown to the model, and the names of those that need approval."""

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
    """Return all tools of an agent. Of tools with the same name, the first is kept.

    Args:
        configured: The entries of `tools:`.
        groups: Groups of configured tools to include; None includes all.
        builtin: See `builtin_tools` and `sandbox_tools`. A configured tool of the same name replaces a built-in one.
        mcp: Tools of MCP servers.
        acp: The tool that calls ACP agents.
        allow_bash: Allow configured tools that run commands: there is isolation, or the user waived it.

    Raises:
        ConfigError: An entry does not name a tool, or has an unknown setting.
    """
    entries = [entry for entry in configured if is_enabled(entry, groups, allow_bash)]
    loaded = [load_tool(entry) for entry in entries]
    configured_names = {tool.name for tool in loaded}
    builtin = [tool for tool in builtin if tool.name not in configured_names]
    sources = [("the configuration", loaded), ("the built-in tools", builtin), ("MCP", mcp), ("ACP", acp)]
    deduplicated = deduplicate((source, tool) for source, tools in sources for tool in tools)
    # If a tool is configured twice, approval in either entry applies.
    approved = [tool.name for entry, tool in zip(entries, loaded, strict=True) if entry.approval == "always"]
    return ToolSet(tuple(deduplicated), frozenset(approved))


def builtin_tools(*, supports_vision: bool = False) -> tuple[BaseTool, ...]:
    """Return the tools that need only a run, plus `view_image` for models with vision."""
    functions = (*BUILTIN_TOOLS, view_image) if supports_vision else BUILTIN_TOOLS
    return tuple(each if isinstance(each, BaseTool) else as_tool(each) for each in functions)


def sandbox_tools(groups: Collection[str] | None = None, *, allow_bash: bool = True) -> tuple[BaseTool, ...]:
    """Return the sandbox tools of the given groups; None includes all."""
    return tuple(as_tool(function) for function in sandbox_functions(groups, allow_bash))


def list_default_tool_names(*, has_computer: bool, allow_bash: bool) -> tuple[str, ...]:
    """Return the names of all built-in tools without building them."""
    computer = sandbox_functions(None, allow_bash) if has_computer else ()
    builtin = (each.name if isinstance(each, BaseTool) else each.__name__ for each in BUILTIN_TOOLS)
    return (*(function.__name__ for function in computer), *builtin)


def sandbox_functions(groups: Collection[str] | None, allow_bash: bool) -> tuple[Callable[..., Any], ...]:
    """Return the functions of the sandbox tools."""
    selected = [
        group
        for group in SANDBOX_TOOLS
        if (groups is None or group in groups) and (allow_bash or group != HOST_BASH_GROUP)
    ]
    return tuple(function for group in selected for function in SANDBOX_TOOLS[group])


def is_enabled(entry: ToolConfig, groups: Collection[str] | None, allow_bash: bool) -> bool:
    """Return True if an entry is in the selected groups and allowed."""
    runs_commands = entry.group == HOST_BASH_GROUP or entry.use == HOST_BASH_TOOL
    if runs_commands and not allow_bash:
        logger.info("tool %r skipped: commands would run without isolation", entry.name)
        return False
    return groups is None or entry.group in groups


def load_tool(entry: ToolConfig) -> BaseTool:
    """Load the tool of an entry: a tool, a tool class, or a function."""
    found = load_object(entry.use)
    try:
        tool = build_tool(found, entry.settings)
    except (ConfigError, ValidationError, TypeError, ValueError) as error:
        raise ConfigError(f"tools: {entry.name!r} ({entry.use}): {error}") from error
    if tool.name != entry.name:
        logger.warning("tool %r is named %r by its class; the model sees that name", entry.name, tool.name)
    if entry.use.startswith(BUILTIN_PREFIX):
        return tool
    # A copy, because the same tool object may be used elsewhere.
    return tool.model_copy(update={"metadata": {SOURCE: CONFIGURED_SOURCE, **(tool.metadata or {})}})


def build_tool(found: object, settings: dict[str, Any]) -> BaseTool:
    """Return the object of an entry's `use` as a tool with the entry's settings."""
    if isinstance(found, type) and issubclass(found, BaseTool):
        check_settings(found.__name__, found.model_fields, settings)
        return found(**settings)
    if isinstance(found, BaseTool):
        if isinstance(found, ConfigurableTool):
            check_settings(found.name, found.setting_names, settings)
            return found.with_settings(settings)
        check_settings(found.name, (), settings)
        return found
    if inspect.isfunction(found):
        return as_tool(found, **settings)
    raise ConfigError(f"{type(found).__name__} is neither a tool nor a function")


def deduplicate(tools: Iterable[tuple[str, BaseTool]]) -> list[BaseTool]:
    """Return the tools in order. Duplicate names are logged and skipped."""
    seen: dict[str, str] = {}
    deduplicated = []
    for source, tool in tools:
        if tool.name in seen:
            logger.warning("tool %r of %s skipped: the name is used by %s", tool.name, source, seen[tool.name])
            continue
        seen[tool.name] = source
        deduplicated.append(tool)
    return deduplicated


@dataclass(frozen=True, slots=True)
class ToolPreference:
    """Preference for a tool or server, optionally limited to messages with certain keywords."""

    subject: str
    """A tool, or all tools of a server, in words for the model."""
    priority: int = 0
    keywords: tuple[str, ...] = ()

    def matches(self, text: str) -> bool:
        """Return True if one of the keywords occurs in a text as a word."""
        return any(contains_word(keyword.casefold(), text.casefold()) for keyword in self.keywords)


def get_preference(tool: BaseTool) -> ToolPreference | None:
    """Return the preference of a tool, or None."""
    entry_data = (tool.metadata or {}).get(PREFERRED)
    return (
        ToolPreference(entry_data["subject"], entry_data["priority"], tuple(entry_data["keywords"]))
        if entry_data
        else None
    )


def list_preferences(tools: Iterable[BaseTool]) -> Sequence[ToolPreference]:
    """Return the preferences without duplicates, highest priority first."""
    found = {preference.subject: preference for tool in tools if (preference := get_preference(tool))}
    return sorted(found.values(), key=lambda each: (-each.priority, each.subject))


def contains_word(word: str, text: str) -> bool:
    """Return True if a word occurs in a text. In scripts without spaces, anywhere."""
    at = text.find(word) if word else -1
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not (continues_word(before, word[0]) or continues_word(word[-1], after)):
            return True
        at = text.find(word, at + 1)
    return False


def continues_word(left: str, right: str) -> bool:
    """Return True if two characters belong to the same word, in scripts with spaces."""
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()
