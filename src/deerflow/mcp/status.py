"""Listings and status of MCP servers."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from langchain_core.tools import BaseTool

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.taint import escape_invisible


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """Tools for a user at one moment; offers with equal versions are equal."""

    version: str = ""
    tools: tuple[BaseTool, ...] = field(default=(), compare=False)


ServerState = Literal["idle", "connecting", "ready", "failed", "disabled", "changed", "needs_login"]
"""`idle`: not listed yet. `changed`: connected, but tools wait for an admin. `needs_login`: the user has to log in."""


@dataclass(frozen=True, slots=True)
class McpToolInfo:
    """Tool as its server describes it. All of it is untrusted content."""

    name: str
    """Name at the server; the model uses `tools.make_tool_name`."""
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """Effects the server declares: `readOnlyHint`, `destructiveHint` …; not to be relied on."""
    title: str = ""


def escape_tool(tool: McpToolInfo) -> McpToolInfo:
    """Return a tool with its invisible characters written out, for models and people."""
    return McpToolInfo(**escape_texts({name: getattr(tool, name) for name in McpToolInfo.__slots__}))


def escape_texts(value: Any) -> Any:
    """Return JSON with the invisible characters in all texts and keys written out."""
    if isinstance(value, str):
        return escape_invisible(value)
    if isinstance(value, Mapping):
        return {escape_invisible(key): escape_texts(item) for key, item in value.items()}
    return [escape_texts(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class McpResourceInfo:
    """Resource of a server; `uri` may be a template."""

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class McpPromptInfo:
    """Prompt of a server."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerListing:
    """Tools, resources and prompts a server has listed."""

    tools: tuple[McpToolInfo, ...] = ()
    resources: tuple[McpResourceInfo, ...] = ()
    prompts: tuple[McpPromptInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Status of one server."""

    name: str
    state: ServerState
    error: str | None = None
    """Reason for users why it is not ready; secrets are redacted."""
    tools: tuple[McpToolInfo, ...] = ()
    """Tools offered to agents: accepted, and of an enabled server."""
    resources: tuple[McpResourceInfo, ...] = ()
    prompts: tuple[McpPromptInfo, ...] = ()
    since: datetime | None = None
    """Time of the last change of state."""
    changed_tools: tuple[str, ...] = ()
    """Tools that differ from the accepted version and are not offered until an admin accepts them."""


def escape_status(status: ServerStatus) -> ServerStatus:
    """Return a status with the invisible characters in all texts of the server written out, for people."""
    return replace(
        status,
        tools=tuple(escape_tool(tool) for tool in status.tools),
        resources=tuple(McpResourceInfo(**escape_texts(asdict(each))) for each in status.resources),
        prompts=tuple(
            McpPromptInfo(escape_invisible(each.name), escape_invisible(each.description), escape_names(each.arguments))
            for each in status.prompts
        ),
        changed_tools=escape_names(status.changed_tools),
    )


def escape_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names with their invisible characters written out."""
    return tuple(map(escape_invisible, names))


class McpServerError(DeerFlowError):
    """A server cannot be reached, has ended, or violates the protocol; the text says which and what to try."""


VISIBLE_PATHS = ("/usr", "/bin", "/lib", "/etc", "/tmp", "/mnt/user-data", "/proc", "/dev")


def suggest_fix(config: McpServerConfig) -> str:
    """Return configuration changes that may help; empty when there are none."""
    if config.type != "stdio":
        return ""
    hints = []
    if config.downloads_program and not config.has_network:
        hints.append(f'{config.command!r} fetches packages, which needs "network": true')
    if hidden := [word for word in config.args if is_outside_sandbox(word, config)]:
        hints.append(f"it cannot see {', '.join(map(repr, hidden))} unless 'paths' names it")
    return "".join(f"; {hint}" for hint in hints)


def describe_restart(config: McpServerConfig) -> str:
    """Return what happens after a server was found not to answer."""
    return "it is restarted for the next call" if config.type == "stdio" else "the next call connects again"


def find_ignored_settings(config: McpServerConfig) -> list[str]:
    """Return one sentence for each setting of an entry that has no effect."""
    if not config.task_toolsets:
        return []
    names = ", ".join(repr(toolset.get("name")) for toolset in config.task_toolsets)
    return [
        f"'task_toolsets' ({names}) has no effect: a long task is not followed in the background; the agent calls the "
        "tools that submit, look after and cancel it by itself"
    ]


def is_outside_sandbox(word: str, config: McpServerConfig) -> bool:
    """Return whether an argument is a path of this machine that is not mounted in the sandbox."""
    path = Path(word)
    if not path.is_absolute() or path == Path("/") or any(path.is_relative_to(place) for place in VISIBLE_PATHS):
        return False
    return not any(path.is_relative_to(Path(shown).expanduser()) for shown in config.paths) and path.exists()
