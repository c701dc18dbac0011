"""`extensions_config.json`: MCP servers and disabled skills; reading and changing the file."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from deerflow.config.loader.document import ConfigDocument, ConfigProblem, InvalidConfig, KeyPath, from_mapping
from deerflow.config.loader.files import blank_comments, lock_folder, parse_json, read_text, replace_file
from deerflow.config.loader.validation import validate
from deerflow.config.loader.variables import substitute_variables
from deerflow.config.sections.base import Section, make_error, make_validation_error
from deerflow.domain.errors import ConfigError
from deerflow.domain.sandbox import is_container


class OAuthConfig(Section):
    """OAuth settings of a remote server."""

    enabled: bool = Field(default=True, description="Use OAuth for this server.")
    token_url: str | None = Field(default=None, min_length=1, description="Token endpoint; default: discovered.")
    authorization_url: str | None = Field(
        default=None, min_length=1, description="Authorization endpoint; default: discovered."
    )
    grant_type: Literal["client_credentials", "refresh_token", "authorization_code"] = Field(
        default="client_credentials", description="OAuth grant; `authorization_code` asks each user to sign in."
    )
    client_id: str | None = Field(default=None, description="Client id; default: dynamic registration.")
    client_secret: str | None = Field(default=None, description="Client secret.")
    refresh_token: str | None = Field(default=None, description="Refresh token of the grant `refresh_token`.")
    scope: str | None = Field(default=None, description="Requested scopes, separated by spaces.")
    audience: str | None = Field(default=None, description="Value of `audience` in token requests.")
    token_field: str = Field(default="access_token", description="Field of the token response with the access token.")
    token_type_field: str = Field(default="token_type", description="Field of the token response with the token type.")
    expires_in_field: str = Field(default="expires_in", description="Field of the token response with the lifetime.")
    default_token_type: str = Field(default="Bearer", description="Token type if the token response has none.")
    refresh_skew_seconds: float = Field(default=60.0, ge=0, description="Seconds before expiry to refresh tokens.")
    extra_token_params: dict[str, str] = Field(default_factory=dict, description="More parameters of token requests.")

    @model_validator(mode="after")
    def _check_grant(self) -> Self:
        if self.grant_type == "refresh_token" and not self.refresh_token:
            raise make_error("the grant 'refresh_token' needs 'refresh_token'")
        if self.grant_type == "client_credentials" and not (self.client_id and self.client_secret):
            raise make_error("the grant 'client_credentials' needs 'client_id' and 'client_secret'")
        if self.grant_type == "refresh_token" and not self.token_url:
            raise make_error("the grant 'refresh_token' needs 'token_url'")
        if self.authorization_url and not (self.token_url and self.client_id):
            raise make_error("'authorization_url' also needs 'token_url' and 'client_id'")
        return self


class RoutingConfig(Section):
    """Preference of a server or tool."""

    mode: Literal["off", "prefer"] = Field(default="off", description="`prefer`: prefer these tools.")
    priority: int = Field(default=0, description="Higher priorities are listed and loaded first.")
    keywords: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        default=(), strict=False, max_length=50, description="Words in a user's message for which it is preferred."
    )


class McpToolConfig(Section):
    """Settings of one tool of a server."""

    enabled: bool = Field(default=True, description="Offer the tool to agents.")
    routing: RoutingConfig | None = Field(default=None, description="Overrides the preference of the server.")
    tool_call_timeout: float | None = Field(default=None, gt=0, description="Overrides the timeout of the server.")


PACKAGE_RUNNERS = frozenset({"npx", "uvx", "bunx", "pnpx", "uv", "npm", "pnpm", "yarn", "pipx"})


class McpServerConfig(Section):
    """An MCP server: a command to start, or a URL."""

    enabled: bool = Field(default=True, description="Enable the server.")
    type: Literal["stdio", "sse", "http"] = Field(
        default="stdio", validation_alias=AliasChoices("type", "transport"), description="Transport; sse is outdated."
    )
    command: str | None = Field(default=None, min_length=1, description="Program of a `stdio` server.")
    args: tuple[str, ...] = Field(default=(), strict=False, description="Arguments of the command.")
    env: dict[str, str] = Field(default_factory=dict, description="Environment variables of the command.")
    network: bool | None = Field(
        default=None,
        description="Network of the command: that of this machine, or none. Default: public web hosts through a proxy "
        "for commands that download packages, that of the engine for containers, none for others.",
    )
    paths: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Host files and folders that the command can read. Default: those that `args` name, files with "
        "their package.",
    )
    cwd: str | None = Field(
        default=None,
        min_length=1,
        description="Host folder in which the command starts and which it can read. Default: the files of the thread.",
    )
    url: str | None = Field(default=None, min_length=1, description="Address of a remote server.")
    headers: dict[str, str] = Field(default_factory=dict, description="HTTP headers for a remote server.")
    oauth: OAuthConfig | None = Field(default=None, description="OAuth settings of a remote server.")
    allow_private_addresses: bool = Field(default=False, description="Allow OAuth endpoints on private addresses.")
    description: str = Field(default="", description="Description of the server, shown on the tools page.")
    routing: RoutingConfig | None = Field(default=None, description="Preference of the tools of the server.")
    tools: dict[str, McpToolConfig] = Field(default_factory=dict, description="Settings of single tools, by name.")
    tool_name_prefix: bool = Field(default=True, description="Name tools `<server>_<tool>`.")
    tool_call_timeout: float | None = Field(default=None, gt=0, description="Timeout of a call in seconds; null: 300.")
    session_init_timeout: float = Field(default=60.0, gt=0, description="Timeout of a connection in seconds.")
    ignored_keys: tuple[str, ...] = Field(
        default=(), strict=False, description="Keys of other programs in the entry, which have no effect; filled in."
    )

    @property
    def downloads_program(self) -> bool:
        """Return whether the command downloads the program before it starts it."""
        return Path(self.command or "").name in PACKAGE_RUNNERS

    @property
    def network_access(self) -> bool | Literal["public"]:
        """Network of the command; by default, commands that cannot work without one reach the public internet."""
        if self.network is None:
            return "public" if self.downloads_program or is_container([self.command or ""]) else False
        return self.network

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        if {"type", "transport"} <= data.keys():
            raise make_validation_error(cls.__name__, {("transport",): "is an alias of 'type', which is also set"})
        ignored = sorted(FOREIGN_KEYS & data.keys())
        return {
            **{key: data[key] for key in data if key not in ignored},
            **({"ignored_keys": ignored} if ignored else {}),
        }

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if self.type == "stdio" and self.command is None:
            remote = '; a server with \'url\' needs "type": "http" or "sse"' if self.url else ""
            raise make_error(f"a server of type 'stdio' needs 'command'{remote}")
        if self.type != "stdio" and self.url is None:
            raise make_error(f"a server of type {self.type!r} needs 'url'")
        return self

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if messages := dict(_find_unusable_texts(self)):
            raise make_validation_error(type(self).__name__, messages)
        return self


FOREIGN_KEYS = frozenset(
    {
        *("alwaysAllow", "autoApprove", "disabledTools", "includeTools", "excludeTools", "trust", "timeout"),
        *("dev", "envFile", "gallery", "icon", "task_toolsets", "version"),
    }
)
"""Keys of entries for other programs (Claude, Cline, Cursor, Gemini, VS Code …) that have no counterpart here."""
URL_KEYS = ("serverUrl", "httpUrl")
HTTP_TYPES = frozenset({"streamable-http", "streamableHttp", "streamable_http", "streamable"})
FOREIGN_REFERENCE = re.compile(r"\$\{(env|input):([^${}]+)\}")
NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_]")
SERVER_SECTIONS = ("mcpServers", "servers")


def normalize_servers(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file with its MCP servers as `mcpServers`, with the keys and values of this project.

    Files of VS Code have them as `servers`, or in their settings as `mcp.servers`.
    """
    settings = data.get("mcp")
    if isinstance(settings, Mapping) and "servers" in settings:
        data = {**{key: data[key] for key in data if key != "mcp"}, "servers": settings["servers"]}
    named = [data[section] for section in SERVER_SECTIONS if isinstance(data.get(section), Mapping)]
    if "servers" not in data or len(named) != sum(section in data for section in SERVER_SECTIONS):
        servers = data.get("mcpServers")
    else:
        servers = {name: entry for section in named for name, entry in section.items()}
    if not isinstance(servers, Mapping):
        return dict(data)
    others = {key: data[key] for key in data if key not in (*SERVER_SECTIONS, "inputs", "$schema")}
    return {"mcpServers": {name: normalize_entry(entry) for name, entry in servers.items()}, **others}


def normalize_entry(entry: Any) -> Any:
    """Return the entry of another program with the keys and values of this project."""
    if not isinstance(entry, Mapping):
        return entry
    renamed = {"url" if key in URL_KEYS and "url" not in entry else key: item for key, item in entry.items()}
    kind = next((key for key in ("type", "transport") if key in renamed), None)
    if kind is None and isinstance(url := renamed.get("url"), str) and "command" not in renamed:
        renamed["type"] = "sse" if url.rstrip("/").endswith("/sse") else "http"
    elif kind is not None and isinstance(renamed[kind], str) and renamed[kind] in HTTP_TYPES:
        renamed[kind] = "http"
    if isinstance(command := renamed.get("command"), str) and not renamed.get("args"):
        renamed |= split_command(command)
    if isinstance(renamed.get("disabled"), bool):
        is_disabled = renamed.pop("disabled")
        renamed.setdefault("enabled", not is_disabled)
    return {key: normalize_references(item) for key, item in renamed.items()}


def split_command(command: str) -> dict[str, Any]:
    """Return `command` and `args` for a command that some documentation writes in one text."""
    with suppress(ValueError):
        program, *arguments = shlex.split(command)
        if arguments and not Path(command).exists():
            return {"command": program, "args": arguments}
    return {"command": command}


def normalize_references(value: Any) -> Any:
    """Return a value with `${env:NAME}` and `${input:name}` as references to environment variables."""
    if isinstance(value, Mapping):
        return {key: normalize_references(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalize_references(item) for item in value]
    if not isinstance(value, str):
        return value
    return FOREIGN_REFERENCE.sub(lambda found: f"${{{NOT_IN_NAME.sub('_', found[2]).upper()}}}", value)


HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
NULL_CHARACTER = "must not contain a null character"


def _find_unusable_texts(server: McpServerConfig) -> Iterator[tuple[KeyPath, str]]:
    """Yield the texts that neither a process nor an HTTP request can be given, with what they must be."""
    lists = {"args": server.args, "paths": server.paths}
    listed = (((key, number), text) for key, texts in lists.items() for number, text in enumerate(texts))
    single = (((key,), getattr(server, key) or "") for key in ("command", "cwd"))
    own = (*single, *((("env", name), text) for name, text in server.env.items()))
    yield from ((path, NULL_CHARACTER) for path, text in (*own, *listed) if "\0" in text)
    for name in server.env:
        if not name or "=" in name or "\0" in name:
            yield ("env", name), "the name of a variable must not be empty or contain '=' or a null character"
    for name, text in server.headers.items():
        if not HEADER_NAME.fullmatch(name):
            yield ("headers", name), "the name of a header consists of letters, digits and '-'"
        elif CONTROL_CHARACTER.search(text):
            yield ("headers", name), "must not contain line breaks or other control characters"
    if server.url is not None and not _is_url(server.url):
        yield ("url",), "must be a valid URL"


def _is_url(text: str) -> bool:
    if "$" in text:  # the variables of a disabled server are not substituted
        return not CONTROL_CHARACTER.search(text)
    try:
        port = urlsplit(text).port
    except ValueError:
        return False
    return port != 0 and not CONTROL_CHARACTER.search(text)


class SkillToggle(Section):
    """The state of a skill."""

    enabled: bool = Field(default=True, description="Offer the skill to agents.")


class Extensions(Section):
    """The content of `extensions_config.json`."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    mcp_servers: dict[str, McpServerConfig] = Field(
        default_factory=dict, alias="mcpServers", description="MCP servers by name."
    )
    skills: dict[str, SkillToggle] = Field(default_factory=dict, description="Enabled and disabled skills by name.")


NOT_AN_OBJECT = 'must be an object: {"key": value, …}'
RawExtensions = Mapping[str, Any]
"""The file as written: with the names of variables, not their values."""


def read_extensions(path: Path, environment: Mapping[str, str], *, name: str, advice: str = "set it") -> Extensions:
    """Return the extensions in a file that messages call `name`.

    Raises:
        ConfigError: The file cannot be read or is invalid.
    """
    return _validate(parse_extensions(read_text(path, name), name), environment, advice)


def parse_extensions(text: str, name: str) -> ConfigDocument:
    """Return the document in the text of a file that messages call `name`.

    Raises:
        InvalidConfig: The text is not JSON.
    """
    document = parse_json(text, name)
    locations = {
        ("mcpServers", *path[1:]) if path[:1] == ("servers",) else path: place
        for path, place in document.locations.items()
    }
    return replace(document, data=normalize_servers(document.data), locations=locations)


def read_raw_extensions(path: Path) -> RawExtensions:
    """Return the file as written; empty when it does not exist. Its sections and their entries are objects.

    Raises:
        ConfigError: The file cannot be read.
    """
    if not path.exists():
        return {}
    document = parse_extensions(read_text(path, path.name), path.name)
    if problems := [*document.problems, *_check_objects(document)]:
        raise InvalidConfig(problems)
    return document.data


def _check_objects(document: ConfigDocument) -> Iterator[ConfigProblem]:
    """Yield a problem for each section or entry that is not an object."""
    for section in ("mcpServers", "skills"):
        entries = document.data.get(section)
        if entries is not None and not isinstance(entries, dict):
            yield document.make_problem((section,), NOT_AN_OBJECT)
            continue
        for name, entry in (entries or {}).items():
            if not isinstance(entry, dict):
                yield document.make_problem((section, name), NOT_AN_OBJECT)


def change_extensions(
    path: Path, change: Callable[[RawExtensions], RawExtensions], environment: Mapping[str, str]
) -> Extensions:
    """Apply `change` to the file under a lock, and return the new extensions.

    Raises:
        ConfigError: The result would be invalid, or the file cannot be read or written; it is left unchanged.
    """
    with _lock_directory(path.resolve().parent):
        written = change(read_raw_extensions(path))
        extensions = _validate(from_mapping(written, path.name), environment, "set it")
        # A lone surrogate has no UTF-8 encoding, but JSON has an escape for it.
        text = json.dumps(written, indent=2, ensure_ascii=False) + "\n"
        _back_up_comments(path)
        replace_file(path, text.encode(errors="backslashreplace"))
    return extensions


def check_extensions(written: RawExtensions, environment: Mapping[str, str]) -> None:
    """Raise `InvalidConfig` when a file with this content would be invalid."""
    _validate(from_mapping(written, "extensions_config.json"), environment, "set it")


def _back_up_comments(path: Path) -> None:
    """Copy a file with comments, which are lost when it is written."""
    if path.exists() and blank_comments(text := read_text(path, path.name)) != text:
        replace_file(path.with_name(f"{path.name}.bak"), text.encode())


def set_skill_enabled(written: RawExtensions, name: str, *, enabled: bool) -> RawExtensions:
    """Return the file with a skill enabled or disabled."""
    skills = written.get("skills") or {}
    return {**written, "skills": {**skills, name: {**skills.get(name, {}), "enabled": enabled}}}


def replace_servers(written: RawExtensions, servers: Mapping[str, RawExtensions]) -> RawExtensions:
    """Return the file with these MCP servers instead of its own."""
    return {**written, "mcpServers": dict(servers)}


def _validate(document: ConfigDocument, environment: Mapping[str, str], advice: str) -> Extensions:
    document = document.drop_keys(*(key for key in ("mcpServers", "skills") if document.data.get(key) is None))
    return validate(Extensions, substitute_variables(document, environment, advice, _make_usage_filter(document)))


def _make_usage_filter(document: ConfigDocument) -> Callable[[KeyPath], bool]:
    """Return a filter for the parts that need their variables: a disabled server needs no keys."""
    servers = document.data.get("mcpServers")
    named = servers.items() if isinstance(servers, dict) else ()
    unused = {name for name, server in named if isinstance(server, dict) and server.get("enabled") is False}
    return lambda path: path[:1] != ("mcpServers",) or len(path) != 2 or path[1] not in unused


@contextmanager
def _lock_directory(directory: Path) -> Iterator[None]:
    """Hold an exclusive lock on `directory`, across threads and processes."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(directory))
        except OSError as error:
            raise ConfigError(f"{directory}: {(error.strerror or str(error)).lower()}") from None
        yield
