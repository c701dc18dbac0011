"""Entries of MCP servers in the API: masking and restoring of secrets, checks of new and pasted entries."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from deerflow.config.loader.document import InvalidConfig
from deerflow.config.loader.validation import CREDENTIALS_IN_URL, MASK, is_secret
from deerflow.config.loader.variables import REFERENCE, WHOLE_VALUE
from deerflow.config.sections.extensions import URL_KEYS, normalize_entry, parse_extensions
from deerflow.domain.errors import InvalidRequest
from deerflow.sandbox.local.programs import MOUNT_OPTIONS, find_argument_paths, find_mount_source, split_options

ServerEntry = Mapping[str, Any]
EntryPath = tuple[str | int, ...]

VARIABLE_REFERENCE = re.compile(r"(?:(?:Bearer|Basic|Token) )?\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})")
"""Value that refers to a variable instead of containing the secret."""
SECRET_SECTIONS = frozenset({"env", "headers", "extra_token_params"})
"""Sections whose values are all treated as secrets."""
MAX_DEPTH = 10
ENCODED_MASK = MASK.replace("*", "%2A")


def mask_entry(entry: ServerEntry) -> dict[str, Any]:
    """Return an entry with secrets masked."""
    return {replace_surrogates(key): mask_part(value, (key,)) for key, value in entry.items()}


def mask_part(value: Any, path: EntryPath) -> Any:
    """Return a part of an entry with secrets masked."""
    if isinstance(value, Mapping):
        return {replace_surrogates(key): mask_part(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return mask_arguments(value) if path == ("args",) else [mask_part(each, (*path, 0)) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if VARIABLE_REFERENCE.fullmatch(str(value)):
        return value
    if SECRET_SECTIONS.intersection(map(str, path[:-1])) or is_secret(path):
        return MASK
    return mask_url(value) if isinstance(value, str) else value


def mask_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Return command arguments with the values of secret flags masked."""
    shown: list[Any] = []
    follows_secret = False
    for argument in arguments:
        text = str(argument)
        flag, equals, value = text.partition("=")
        names_secret = is_secret((flag.lstrip("-"),))
        if follows_secret and not text.startswith("-") and not VARIABLE_REFERENCE.fullmatch(text):
            shown.append(MASK)
        elif equals and value and names_secret and not VARIABLE_REFERENCE.fullmatch(value):
            shown.append(f"{flag}={MASK}")
        else:
            shown.append(mask_url(argument) if isinstance(argument, str) else argument)
        follows_secret = names_secret and not equals and text.startswith("-")
    return shown


def mask_url(text: str) -> str:
    """Return a text with secrets in URLs masked: passwords and keys in the query."""
    clean = CREDENTIALS_IN_URL.sub(MASK, replace_surrogates(text))
    try:
        parts = urlsplit(clean)
        fields = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return clean
    if not any(is_secret((name,)) for name, _ in fields):
        return clean
    query = urlencode([(name, MASK if is_secret((name,)) else value) for name, value in fields])
    return urlunsplit(parts._replace(query=query.replace(ENCODED_MASK, MASK)))


def replace_surrogates(text: str) -> str:
    """Return a text of a file that responses can contain: JSON files may have halves of characters."""
    return text.encode(errors="replace").decode()


def restore_entry(name: str, sent: ServerEntry, stored: ServerEntry | None) -> dict[str, Any]:
    """Return a masked entry with its stored secrets.

    Raises:
        InvalidRequest: A value is masked and no value is stored for it.
    """
    shown = mask_entry(stored) if stored is not None else {}
    return {key: restore_part(item, (name, key), shown.get(key), (stored or {}).get(key)) for key, item in sent.items()}


def restore_part(sent: Any, path: EntryPath, shown: Any, stored: Any) -> Any:
    """Return a part of an entry with its stored secrets."""
    if len(path) > MAX_DEPTH:
        raise InvalidRequest(f"{path[0]} is nested too deeply")
    if sent == shown and stored is not None:
        return stored
    if isinstance(sent, Mapping):
        known, kept = (each if isinstance(each, Mapping) else {} for each in (shown, stored))
        return {key: restore_part(item, (*path, key), known.get(key), kept.get(key)) for key, item in sent.items()}
    if isinstance(sent, list):
        return [restore_part(each, (*path, "*"), *find_counterpart(each, shown, stored)) for each in sent]
    if isinstance(sent, str) and MASK in sent:
        where = ".".join(map(str, path))
        raise InvalidRequest(f"{where} is masked, and there is no stored value for it: write the value itself")
    return sent


def find_counterpart(sent: Any, shown: Any, stored: Any) -> tuple[Any, Any]:
    """Return the masked and stored values of an argument; it may have moved, so it is found by its masked value."""
    if isinstance(shown, list) and isinstance(stored, list | tuple) and sent in shown:
        return sent, stored[shown.index(sent)]
    return None, None


ALLOWLIST_VARIABLE = "DEER_FLOW_MCP_STDIO_COMMAND_ALLOWLIST"
DEFAULT_COMMANDS = frozenset({"npx", "uvx", "bunx", "pipx"})
NOT_IN_SERVER_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LAUNCH_KEYS = ("command", "args", "env", "paths", "cwd")
CODE_FLAGS = frozenset(
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
SHORT_CODE_FLAGS = frozenset({"-c", "-e"})
"""Flags that execute a text as code, or load code from a file."""
LOADER_VARIABLES = re.compile(
    r"(LD|DYLD|NPM_CONFIG|UV|PIP|GIT|BASH_FUNC)_.*"
    r"|(PYTHON|PERL5?|RUBY|NODE)(PATH|HOME|STARTUP|INSPECT|OPT|OPTIONS|LIB|USERBASE|WARNINGS|BREAKPOINT|EXECUTABLE)"
    r"|NODE_(OPTIONS|PATH|REPL_.*|EXTRA_CA_CERTS)|PERL5DB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|PATH|HOME|SHELL|ENV|BASH_ENV|IFS|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|BROWSER|PS4|GCONV_PATH",
    re.IGNORECASE,
)
"""Variables that decide which programs or libraries are loaded."""


def allowed_commands(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the commands that may be registered: the defaults, and those the operator has added."""
    listed = environment.get(ALLOWLIST_VARIABLE, "").split(",")
    return DEFAULT_COMMANDS | {command.strip() for command in listed if command.strip()}


def check_entry(name: str, entry: ServerEntry, stored: ServerEntry | None, commands: Collection[str]) -> None:
    """Raise `InvalidRequest` when an entry may not be written; unchanged stored values are accepted."""
    if stored is None and not SERVER_NAME.fullmatch(name):
        raise InvalidRequest(f"{name[:100]!r} is no name for a server: use letters, digits, '-', '_' and '.'")
    known = stored or {}
    if any(entry.get(key) != known.get(key) for key in LAUNCH_KEYS):
        check_command(name, entry, known, commands)
    url = entry.get("url")
    if isinstance(url, str) and url != known.get("url") and not url.lower().startswith(("http://", "https://")):
        raise InvalidRequest(f"{name}.url: begins with https:// or http://")
    before = set(find_variables(known))
    if fresh := sorted(set(find_variables(entry)) - before):
        raise InvalidRequest(
            f"{name}: refers to {', '.join(fresh)}; variables of the server are named in extensions_config.json alone"
        )


def check_command(name: str, entry: ServerEntry, known: ServerEntry, commands: Collection[str]) -> None:
    """Raise `InvalidRequest` when a command may not be registered."""
    if key := next((key for key in ("paths", "cwd") if entry.get(key) != known.get(key)), None):
        raise InvalidRequest(f"{name}.{key}: paths of this machine are given in extensions_config.json alone")
    if entry.get("command") is None:
        return
    if not isinstance(entry["command"], str):
        raise InvalidRequest(f"{name}.command: must be text")
    if entry["command"] not in commands:
        raise InvalidRequest(
            f"{name}.command: {str(entry['command'])[:100]!r} is not one of {', '.join(sorted(commands))}; "
            f"write it into extensions_config.json, or into {ALLOWLIST_VARIABLE}"
        )
    arguments, environment = entry.get("args") or (), entry.get("env") or {}
    for argument in arguments if isinstance(arguments, list | tuple) else ():
        if is_code_flag(str(argument)):
            raise InvalidRequest(f"{name}.args: {str(argument)[:100]!r} runs or loads a text as a program")
    for path in find_host_paths([str(each) for each in arguments]):
        raise InvalidRequest(f"{name}.args: {str(path)!r} is a path of this machine; name it in extensions_config.json")
    for variable in environment if isinstance(environment, Mapping) else ():
        if LOADER_VARIABLES.fullmatch(str(variable)):
            raise InvalidRequest(f"{name}.env: {str(variable)[:100]!r} decides which programs are loaded")


def find_host_paths(arguments: Sequence[str]) -> list[Path]:
    """Return the paths of this machine that arguments name, also as mounts of a container."""
    mounts = (find_mount_source(value) for option, value in split_options(arguments) if option in MOUNT_OPTIONS)
    return [*find_argument_paths(arguments, Path.home()), *(path for path in mounts if path is not None)]


def is_code_flag(argument: str) -> bool:
    """Return whether an argument is a flag that executes a text or file as code."""
    if argument.startswith("--"):
        return argument.partition("=")[0].lower() in CODE_FLAGS
    return argument[:2] in SHORT_CODE_FLAGS


def find_variables(value: Any) -> Iterator[str]:
    """Yield the names of environment variables that an entry refers to."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from find_variables(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from find_variables(item)
    elif isinstance(value, str):
        if alone := WHOLE_VALUE.fullmatch(value):
            yield alone[1]
        yield from (match["name"] for match in REFERENCE.finditer(value) if match["name"])


PACKAGE_AFFIXES = re.compile(r"^(mcp-server-|server-|mcp-)|(-mcp-server|-mcp|-server)$")
NOT_AN_ENTRY = "needs 'command' or 'url'"


def find_pasted_servers(text: str) -> dict[str, ServerEntry]:
    """Return the servers in a configuration for this or another program; names get the form that the API accepts.

    Raises:
        InvalidRequest: It is not JSON, or has no servers.
    """
    text = text.strip().removesuffix(",")
    try:
        # Some documentation prints the section without the braces around it.
        data = parse_extensions(f"{{{text}}}" if text.startswith('"') else text, "the text").data
    except InvalidConfig as problem:
        raise InvalidRequest(str(problem)) from problem
    found = {suggest_server_name(data): data} if is_entry(data) else data.get("mcpServers", data)
    if not isinstance(found, Mapping) or not any(map(is_entry, found.values())):
        raise InvalidRequest('no MCP servers found; paste them with their braces: {"mcpServers": {"name": {…}}}')
    return {NOT_IN_SERVER_NAME.sub("-", name).strip("-"): entry for name, entry in found.items()}


def suggest_server_name(entry: Mapping[str, Any]) -> str:
    """Return a name for an entry that was pasted without one: of its package, or of its host."""
    url = next((entry[key] for key in ("url", *URL_KEYS) if isinstance(entry.get(key), str)), None)
    if url is not None:
        labels = url.partition("://")[2].partition("/")[0].partition(":")[0].split(".")
        known = [label for label in labels[:-1] if label not in ("mcp", "api", "www", "server")]
        return (known or labels)[-1] or "server"
    words = [str(word) for word in (normalize_entry(entry).get("args") or ()) if not str(word).startswith("-")]
    package = (words or [str(entry.get("command", ""))])[0].rpartition("/")[2].partition("@")[0]
    return PACKAGE_AFFIXES.sub("", package) or "server"


def switch_tool(entry: ServerEntry, tool: str, *, enabled: bool) -> dict[str, Any]:
    """Return an entry with a tool switched on or off; only what differs from the default is written."""
    tools = dict(entry.get("tools") or {})
    settings = {key: value for key, value in dict(tools.pop(tool, None) or {}).items() if key != "enabled"}
    if not enabled:
        settings["enabled"] = False
    kept = {**tools, tool: settings} if settings else tools
    rest = {key: value for key, value in entry.items() if key != "tools"}
    return {**rest, "tools": kept} if kept else rest


def is_entry(entry: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value looks like the entry of a server."""
    return isinstance(entry, Mapping) and bool(entry.keys() & {"command", "url", *URL_KEYS})
