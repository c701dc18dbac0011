"""Listings and status of MCP servers."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.sandbox import is_container
from deerflow.domain.taint import escape_invisible
from deerflow.sandbox.local.programs import find_argument_paths, find_shown_path

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """Tools for a user at one moment; offers with equal versions are equal."""

    version: str = ""
    tools: "tuple[BaseTool, ...]" = field(default=(), compare=False)


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
    """Accepted tools of an enabled server; agents get those that are not switched off."""
    resources: tuple[McpResourceInfo, ...] = ()
    prompts: tuple[McpPromptInfo, ...] = ()
    since: datetime | None = None
    """Time of the last change of state."""
    changed_tools: tuple[str, ...] = ()
    """Tools that differ from the accepted version and are not offered until an admin accepts them."""
    log: str = ""
    """Output of the process of a server that is not ready; secrets are redacted."""


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
        log=escape_invisible(status.log),
    )


def escape_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names with their invisible characters written out."""
    return tuple(map(escape_invisible, names))


ToolTestOutcome = Literal["done", "failed", "ask", "deny"]
"""Outcome of a test call of a tool; `ask`: the policy wants approval first, `deny`: it forbids the call."""


class McpServerError(DeerFlowError):
    """A server cannot be reached, has ended, or violates the protocol; the text says which and what to try."""


TASK_TOOLSETS = "task_toolsets"
VISIBLE_PATHS = ("/usr", "/bin", "/lib", "/etc", "/tmp", "/mnt/user-data", "/proc", "/dev")


def suggest_fix(config: McpServerConfig) -> str:
    """Return configuration changes that may help; empty when there are none."""
    if config.type != "stdio":
        return ""
    hints = []
    if is_container([config.command or ""]):
        return '; "network": false leaves the container without network' if config.network is False else ""
    if config.downloads_program and config.network is False:
        hints.append(f'{config.command!r} fetches packages, which "network": false prevents')
    elif config.network_access == "public":
        hints.append('it reaches web hosts through a proxy; with "network": true it has the network of this machine')
    if hidden := [word for word in config.args if is_outside_sandbox(word, config)]:
        hints.append(f"it cannot see {', '.join(map(repr, hidden))} unless 'paths' names it")
    return "".join(f"; {hint}" for hint in hints)


def describe_restart(config: McpServerConfig) -> str:
    """Return what happens after a server was found not to answer."""
    return "it is restarted for the next call" if config.type == "stdio" else "the next call connects again"


def find_ignored_settings(config: McpServerConfig) -> list[str]:
    """Return one sentence for each setting of an entry that has no effect."""
    others = [key for key in config.ignored_keys if key != TASK_TOOLSETS]
    sentences = [f"{', '.join(map(repr, others))} has no effect here"] if others else []
    if TASK_TOOLSETS in config.ignored_keys:
        sentences.append(
            f"{TASK_TOOLSETS!r} has no effect: a long task is not followed in the background; the agent calls the "
            "tools that submit, check and cancel it by itself"
        )
    return sentences


def is_outside_sandbox(word: str, config: McpServerConfig) -> bool:
    """Return whether an argument is a path of this machine that is not mounted in the sandbox."""
    path = Path(word)
    if not path.is_absolute() or path == Path("/") or any(path.is_relative_to(place) for place in VISIBLE_PATHS):
        return False
    return not any(path.is_relative_to(shown) for shown in find_readable_paths(config)) and path.exists()


def find_readable_paths(config: McpServerConfig) -> list[Path]:
    """Return the host paths that a command can read: those of the entry, or else those that its arguments name."""
    folder = find_folder(config)
    own = [folder] if folder is not None else []
    if "paths" in config.model_fields_set:
        return [*own, *(Path(path).expanduser() for path in config.paths)]
    return [*own, *find_argument_paths(config.args, Path.home())]


def find_folder(config: McpServerConfig) -> Path | None:
    """Return the host folder in which the command of an entry starts; None for the files of the thread.

    Raises:
        McpServerError: Servers must not see that folder.
    """
    if config.cwd is None:
        return None
    folder = Path(config.cwd)
    if not folder.is_dir():
        raise McpServerError(f"'cwd': there is no folder {config.cwd!r}")
    if find_shown_path(folder, Path.home()) is None:
        raise McpServerError(f"'cwd': a server must not see {config.cwd!r}; move it into a folder of its own")
    return folder
