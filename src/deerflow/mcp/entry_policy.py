"""What may be written into an entry of an MCP server from outside, by somebody who cannot write the file itself.

A command is judged by its text here, which is advice and no boundary: the boundary is the sandbox it runs in.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from deerflow.config.reading.variables import ALONE, REFERENCE
from deerflow.domain.errors import InvalidRequest
from deerflow.mcp.entries import Entry

ALLOWLIST_VARIABLE = "DEER_FLOW_MCP_STDIO_COMMAND_ALLOWLIST"
COMMANDS = frozenset({"npx", "uvx"})
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
SAYS_HOW_TO_START = ("command", "args", "env", "paths")
LONG_FLAGS = frozenset(
    {
        "--call",
        "--eval",
        "--exec",
        "--print",
        "--require",
        "--import",
        "--loader",
        "--experimental-loader",
        "--node-options",
        "--script-shell",
        "--shell",
        "--command",
        "--env-file",
        "--config-file",
        "--with-editable",
    }
)
SHORT_FLAGS = frozenset({"-c", "-e"})
"""What runs a text as a program, or loads one from a file that is named."""
ENVIRONMENT = re.compile(
    r"(LD|DYLD|NPM_CONFIG|UV|PIP|GIT|BASH_FUNC)_.*"
    r"|(PYTHON|PERL5?|RUBY|NODE)(PATH|HOME|STARTUP|INSPECT|OPT|OPTIONS|LIB|USERBASE|WARNINGS|BREAKPOINT|EXECUTABLE)"
    r"|NODE_(OPTIONS|PATH|REPL_.*|EXTRA_CA_CERTS)|PERL5DB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|PATH|HOME|SHELL|ENV|BASH_ENV|IFS|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|BROWSER|PS4|GCONV_PATH",
    re.IGNORECASE,
)
"""Names of variables by which other programs are loaded or found."""


def allowed_commands(environment: Mapping[str, str]) -> frozenset[str]:
    """The commands that may be registered: two, and those the operator has added."""
    listed = environment.get(ALLOWLIST_VARIABLE, "").split(",")
    return COMMANDS | {command.strip() for command in listed if command.strip()}


def check_entry(name: str, entry: Entry, stored: Entry | None, commands: Collection[str]) -> None:
    """Raise `InvalidRequest` when an entry may not be written; what was stored before may stay."""
    if stored is None and not NAME.fullmatch(name):
        raise InvalidRequest(f"{name[:100]!r} is no name for a server: use letters, digits, '-', '_' and '.'")
    known = stored or {}
    if any(entry.get(key) != known.get(key) for key in SAYS_HOW_TO_START):
        check_command(name, entry, known, commands)
    url = entry.get("url")
    if isinstance(url, str) and url != known.get("url") and not url.lower().startswith(("http://", "https://")):
        raise InvalidRequest(f"{name}.url: begins with https:// or http://")
    before = set(variables_in(known))
    if fresh := sorted(set(variables_in(entry)) - before):
        raise InvalidRequest(
            f"{name}: refers to {', '.join(fresh)}; variables of the server are named in extensions_config.json alone"
        )


def check_command(name: str, entry: Entry, known: Entry, commands: Collection[str]) -> None:
    """Raise `InvalidRequest` when a command may not be registered."""
    if entry.get("paths") != known.get("paths"):
        raise InvalidRequest(f"{name}.paths: paths of this machine are given in extensions_config.json alone")
    if entry.get("command") is None:
        return
    if entry["command"] not in commands:
        raise InvalidRequest(
            f"{name}.command: {str(entry['command'])[:100]!r} is not one of {', '.join(sorted(commands))}; "
            f"write it into extensions_config.json, or into {ALLOWLIST_VARIABLE}"
        )
    arguments, environment = entry.get("args") or (), entry.get("env") or {}
    for argument in arguments if isinstance(arguments, list | tuple) else ():
        if runs_text(str(argument)):
            raise InvalidRequest(f"{name}.args: {str(argument)[:100]!r} runs or loads a text as a program")
    for variable in environment if isinstance(environment, Mapping) else ():
        if ENVIRONMENT.fullmatch(str(variable)):
            raise InvalidRequest(f"{name}.env: {str(variable)[:100]!r} decides which programs are loaded")


def runs_text(argument: str) -> bool:
    """Whether an argument is a flag that has a text or a file run as a program."""
    if argument.startswith("--"):
        return argument.partition("=")[0].lower() in LONG_FLAGS
    return argument[:2] in SHORT_FLAGS


def variables_in(value: Any) -> Iterator[str]:
    """The names of the variables that an entry refers to."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from variables_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from variables_in(item)
    elif isinstance(value, str):
        if alone := ALONE.fullmatch(value):
            yield alone[1]
        yield from (match["name"] for match in REFERENCE.finditer(value) if match["name"])
