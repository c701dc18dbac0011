"""Management of MCP servers: configuration entries, status, logins and accepted tools."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.config.loader.document import InvalidConfig
from deerflow.config.sections.base import Settings
from deerflow.config.sections.extensions import (
    Extensions,
    McpServerConfig,
    RawExtensions,
    change_extensions,
    check_extensions,
    normalize_entry,
    read_raw_extensions,
    replace_servers,
)
from deerflow.domain.errors import Conflict, InvalidRequest, McpLoginFailed, NotFound
from deerflow.domain.taint import escape_invisible
from deerflow.mcp.auth.service import OAuthService
from deerflow.mcp.auth.tokens import LoginCallback, LoginRedirect, LoginResult, LoginStart, LoginStatus
from deerflow.mcp.catalog import McpCatalog
from deerflow.mcp.entries import (
    NOT_AN_ENTRY,
    ServerEntry,
    allowed_commands,
    check_entry,
    find_pasted_servers,
    is_entry,
    mask_entry,
    replace_surrogates,
    restore_entry,
    switch_tool,
)
from deerflow.mcp.pins import ToolPins
from deerflow.mcp.queries import ToolPin
from deerflow.mcp.status import McpToolInfo, ServerStatus, find_ignored_settings

MAX_SERVERS = 200
RECONNECT_S = 10.0

EntriesChange = Callable[[dict[str, ServerEntry]], dict[str, ServerEntry]]


@dataclass(frozen=True, slots=True)
class McpConfigFile:
    """File with the entries of servers."""

    path: Settings[Path]
    environment: Mapping[str, str]
    extensions: Settings[Extensions]
    problem: Callable[[], str | None]
    """Returns the error of the file when it was last read."""

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        _ = self.extensions.current


@dataclass(frozen=True, slots=True)
class ServerView:
    """Configuration, status and login of one server for one user."""

    name: str
    config: McpServerConfig
    status: ServerStatus
    login: LoginStatus

    @property
    def notes(self) -> list[str]:
        """Return the settings of the entry that have no effect."""
        return find_ignored_settings(self.config)

    def is_tool_enabled(self, tool: str) -> bool:
        """Return whether agents get a tool, by the name that people see."""
        off = (name for name, settings in self.config.tools.items() if not settings.enabled)
        return tool not in map(escape_invisible, off)


@dataclass(frozen=True, slots=True)
class PastedServer:
    """Server of a pasted configuration, as it would be added."""

    name: str
    entry: Mapping[str, Any]
    """Entry with its secrets masked."""
    replaces: bool
    """A server of that name exists."""
    problem: str | None
    """Reason why it cannot be added."""


@dataclass(frozen=True, slots=True)
class MaskedConfig:
    """Entries with their secrets masked."""

    servers: Mapping[str, dict[str, Any]]
    problem: str | None


@dataclass(frozen=True, slots=True)
class McpServerManager:
    """Management of MCP servers. Callers check permissions."""

    file: McpConfigFile
    catalog: McpCatalog
    oauth: OAuthService
    pins: ToolPins

    async def config(self) -> MaskedConfig:
        """Return the entries without secrets.

        Raises:
            ConfigError: The file cannot be read.
        """
        written = await asyncio.to_thread(read_raw_extensions, self.file.path.current)
        return MaskedConfig(
            {replace_surrogates(name): mask_entry(entry) for name, entry in get_entries(written).items()},
            self.file.problem(),
        )

    async def replace(self, servers: Mapping[str, ServerEntry]) -> MaskedConfig:
        """Replace all entries. Masked secrets keep their stored values.

        Raises:
            InvalidRequest: An entry is invalid, or may not be written through the API.
            ConfigError: The file cannot be read or written.
        """
        if len(servers) > MAX_SERVERS:
            raise InvalidRequest(f"too many servers ({len(servers)}); at most {MAX_SERVERS}")
        removed: set[str] = set()

        def change(stored: dict[str, ServerEntry]) -> dict[str, ServerEntry]:
            removed.update(stored.keys() - servers.keys())
            return {name: self._check_entry(name, entry, stored.get(name)) for name, entry in servers.items()}

        await self._change(change)
        for name in removed:
            await self._forget(name)
        return await self.config()

    async def preview_text(self, text: str) -> Sequence[PastedServer]:
        """Return what `import_text` would add, each with the reason why it cannot be added; nothing is written.

        Raises:
            InvalidRequest: The text has no servers.
            ConfigError: The file cannot be read.
        """
        pasted = find_pasted_servers(text)
        written = await asyncio.to_thread(read_raw_extensions, self.file.path.current)
        stored = get_entries(written)
        return [
            PastedServer(
                replace_surrogates(name),
                mask_entry(normalize_entry(entry)) if isinstance(entry, Mapping) else {},
                name in stored,
                await asyncio.to_thread(self._find_problem, name, entry, written),
            )
            for name, entry in pasted.items()
        ]

    async def import_text(self, text: str, names: Collection[str] | None = None) -> MaskedConfig:
        """Add the servers of a pasted configuration, all or none. Entries with the same names are replaced.

        Args:
            text: JSON of this or another program.
            names: Servers to add, by the names of `preview_text`; None adds all.

        Raises:
            InvalidRequest: The text has no servers, or one of them may not be written through the API.
            ConfigError: The file cannot be read or written.
        """
        servers = find_pasted_servers(text)
        if names is not None:
            if unknown := sorted(set(names) - servers.keys()):
                raise InvalidRequest(f"the text has no server {unknown[0]!r}")
            servers = {name: entry for name, entry in servers.items() if name in names}
        if wrong := next((name for name, entry in servers.items() if not is_entry(entry)), None):
            raise InvalidRequest(f"{wrong}: {NOT_AN_ENTRY}")

        def change(stored: dict[str, ServerEntry]) -> dict[str, ServerEntry]:
            added = {name: self._check_entry(name, entry, stored.get(name)) for name, entry in servers.items()}
            if len(merged := {**stored, **added}) > MAX_SERVERS:
                raise Conflict(f"there would be {len(merged)} servers; at most {MAX_SERVERS}")
            return merged

        await self._change(change)
        return await self.config()

    async def put(self, name: str, entry: ServerEntry, user_id: str) -> ServerView:
        """Add a server or replace its entry. Raises the same errors as `replace`."""

        def change(stored: dict[str, ServerEntry]) -> dict[str, ServerEntry]:
            if name not in stored and len(stored) >= MAX_SERVERS:
                raise Conflict(f"there are {MAX_SERVERS} servers already")
            return {**stored, name: self._check_entry(name, entry, stored.get(name))}

        await self._change(change)
        return await self.get(name, user_id)

    async def remove(self, name: str) -> None:
        """Remove a server with all its logins and pins.

        Raises:
            NotFound: The server does not exist.
        """

        def change(stored: dict[str, ServerEntry]) -> dict[str, ServerEntry]:
            require_entry(stored, name)
            return {key: entry for key, entry in stored.items() if key != name}

        await self._change(change)
        await self._forget(name)
        await self.catalog.close_removed()

    async def switch(self, name: str, *, enabled: bool) -> MaskedConfig:
        """Enable or disable a server for runs that start from now on.

        Raises:
            NotFound: The server does not exist.
        """

        def change(stored: dict[str, ServerEntry]) -> dict[str, ServerEntry]:
            return {**stored, name: {**require_entry(stored, name), "enabled": enabled}}

        await self._change(change)
        return await self.config()

    async def switch_tool(self, name: str, tool: str, user_id: str, *, enabled: bool) -> ServerView:
        """Offer a tool to agents or not, for runs that start from now on; `tool` is the name that people see.

        Raises:
            NotFound: There is no such server or tool.
        """
        self._require(name)
        _, info = self.catalog.find_tool(name, tool, user_id)

        def change(stored: dict[str, ServerEntry]) -> dict[str, ServerEntry]:
            return {**stored, name: switch_tool(require_entry(stored, name), info.name, enabled=enabled)}

        await self._change(change)
        return await self.get(name, user_id)

    async def list(self, user_id: str) -> Sequence[ServerView]:
        """Return all servers. Servers not listed yet are listed in the background."""
        await self.catalog.prepare(user_id, wait_s=0.0)
        servers = self.file.extensions.current.mcp_servers
        statuses = {status.name: status for status in self.catalog.statuses(user_id)}
        return [
            ServerView(name, config, statuses.get(name, ServerStatus(name, "idle")), await self.login(name, user_id))
            for name, config in servers.items()
        ]

    async def get(self, name: str, user_id: str) -> ServerView:
        """Return one server.

        Raises:
            NotFound: The server does not exist.
        """
        self._require(name)
        return next(view for view in await self.list(user_id) if view.name == name)

    async def reconnect(self, name: str, user_id: str) -> ServerView:
        """List a server again and wait a moment for the result. Raises the same errors as `get`."""
        self._require(name)
        self.catalog.forget(name)
        for _ in range(2):  # the first attempt may find out that each user logs in, so the listing is per user
            await self.catalog.prepare(user_id, wait_s=RECONNECT_S)
        return await self.get(name, user_id)

    def reset(self) -> None:
        """Forget the listings of all servers. They are listed again when next needed."""
        self.catalog.forget()

    async def list_pins(self, name: str) -> Sequence[ToolPin]:
        """Return the accepted tools of a server, and those that wait for approval.

        Raises:
            NotFound: The server does not exist.
        """
        self._require(name)
        return await self.pins.list(name)

    async def accept(self, name: str, seen: Mapping[str, str], user_id: str) -> Sequence[ToolPin]:
        """Accept tools as the user has seen them, identified by their hashes.

        Raises:
            NotFound: There is no such server, or nothing to accept.
            Conflict: A tool has changed again.
        """
        self._require(name)
        await self.pins.accept(name, seen, user_id)
        await self.catalog.recheck(name)
        return await self.pins.list(name)

    async def start_login(self, name: str, user_id: str, redirect: LoginRedirect) -> LoginStart:
        """Start a login in a browser. Raises the same errors as `OAuthService.start`."""
        return await self.oauth.start(name, user_id, redirect)

    async def finish_login(self, user_id: str, callback: LoginCallback) -> LoginResult:
        """Complete a login after the redirect. Raises the same errors as `OAuthService.finish`."""
        finished = await self.oauth.finish(user_id, callback)
        if finished.problem is None:
            self.catalog.refresh(finished.server)
        return finished

    async def complete_login(self, user_id: str, callback: LoginCallback) -> str:
        """Complete a login and return the name of the server; raises `McpLoginFailed` for every failure."""
        finished = await self.finish_login(user_id, callback)
        if finished.problem is not None:
            raise McpLoginFailed(finished.problem)
        return finished.server

    async def login(self, name: str, user_id: str) -> LoginStatus:
        """Return the status of a user's login.

        Raises:
            NotFound: The server does not exist.
        """
        self._require(name)
        return await self.oauth.status(name, user_id)

    async def forget_login(self, name: str, user_id: str) -> None:
        """Delete a user's login at a server. Raises the same errors as `login`."""
        self._require(name)
        await self.oauth.forget(user_id, name)
        self.catalog.forget(name)

    def _require(self, name: str) -> McpServerConfig:
        found = self.file.extensions.current.mcp_servers.get(name)
        if found is None:
            raise NotFound(f"no MCP server {name!r}")
        return found

    def _check_entry(self, name: str, sent: ServerEntry, stored: ServerEntry | None) -> dict[str, Any]:
        """Return an entry as it is written."""
        entry = restore_entry(name, normalize_entry(sent), stored)
        check_entry(name, entry, stored, allowed_commands(self.file.environment))
        return entry

    def _find_problem(self, name: str, sent: object, written: RawExtensions) -> str | None:
        """Return the reason why an entry cannot be added. Blocks."""
        if not is_entry(sent):
            return NOT_AN_ENTRY
        stored = get_entries(written)
        try:
            entry = self._check_entry(name, sent, stored.get(name))
            check_extensions(replace_servers({}, {name: entry}), self.file.environment)
        except (InvalidRequest, InvalidConfig) as problem:
            return str(problem)
        return None

    async def _change(self, change: EntriesChange) -> None:
        await asyncio.to_thread(self._change_file, self.file.path.current, change)
        self.file.refresh()

    def _change_file(self, path: Path, change: EntriesChange) -> None:
        was_read = False

        def changed(written: RawExtensions) -> RawExtensions:
            nonlocal was_read
            was_read = True
            return replace_servers(written, change(dict(get_entries(written))))

        try:
            change_extensions(path, changed, self.file.environment)
        except InvalidConfig as problem:
            if was_read:  # the file is valid, the new content is not
                raise InvalidRequest(str(problem)) from problem
            raise

    async def _forget(self, name: str) -> None:
        self.catalog.forget(name)
        await self.oauth.forget_server(name)
        await self.pins.forget(name)


def get_entries(written: RawExtensions) -> Mapping[str, ServerEntry]:
    """Return the entries of servers in a file."""
    return written.get("mcpServers") or {}


def require_entry(stored: Mapping[str, ServerEntry], name: str) -> ServerEntry:
    """Return an entry, or raise `NotFound`."""
    if name not in stored:
        raise NotFound(f"no MCP server {name!r}")
    return stored[name]


def is_declared_read_only(tool: McpToolInfo) -> bool | None:
    """Return whether the server declares a tool as read-only; None when it declares nothing."""
    hint = tool.annotations.get("readOnlyHint")
    return hint if isinstance(hint, bool) else None
