"""The MCP servers of this installation as people manage them: entries, states, logins and what is accepted of them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.config.extensions import Extensions, McpServerConfig
from deerflow.config.extensions_file import Written, change_extensions, read_written, with_servers
from deerflow.config.reading.problems import WrongConfig
from deerflow.domain.errors import Conflict, InvalidRequest, McpLoginFailed, NotFound
from deerflow.mcp.advice import unheeded_in
from deerflow.mcp.catalog import McpCatalog
from deerflow.mcp.entries import Entry, masked_entry, restored_entry
from deerflow.mcp.entry_policy import allowed_commands, check_entry
from deerflow.mcp.login_words import CameBack, Finished, LoginDesk, LoginStatus, Started
from deerflow.mcp.status import ServerStatus, ToolCard
from deerflow.mcp.tool_pins import ToolPins
from deerflow.persistence.mcp_pins import Pin

MOST_SERVERS = 200
RECONNECT_S = 10.0

Change = Callable[[dict[str, Entry]], dict[str, Entry]]


@dataclass(frozen=True, slots=True)
class ServersFile:
    """Where the entries are written, and what they may refer to."""

    path: Callable[[], Path]
    environment: Mapping[str, str]
    current: Callable[[], Extensions]
    """What is in force; looks whether the file has changed."""
    problem: Callable[[], str | None]
    """What is wrong with the file as it is now."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """All there is to say about one server to one person."""

    name: str
    config: McpServerConfig
    status: ServerStatus
    login: LoginStatus

    @property
    def notes(self) -> list[str]:
        """What its entry asks for in vain."""
        return unheeded_in(self.config)


@dataclass(frozen=True, slots=True)
class ShownConfig:
    """The entries as others may see them."""

    servers: Mapping[str, dict[str, Any]]
    problem: str | None


@dataclass(frozen=True, slots=True)
class McpServers:
    """What people do with MCP servers; who may do what is the callers' business."""

    file: ServersFile
    catalog: McpCatalog
    logins: LoginDesk
    pins: ToolPins

    async def config(self) -> ShownConfig:
        """The entries, without secrets.

        Raises:
            ConfigError: The file cannot be read.
        """
        self.file.current()
        written = await asyncio.to_thread(read_written, self.file.path())
        return ShownConfig(
            {name: masked_entry(entry) for name, entry in entries_in(written).items()}, self.file.problem()
        )

    async def replace(self, servers: Mapping[str, Entry]) -> ShownConfig:
        """Have these servers and no others; secrets that are masked stay as they are stored.

        Raises:
            InvalidRequest: One of the entries is wrong, or may not be written from outside.
            ConfigError: The file cannot be read or written.
        """
        if len(servers) > MOST_SERVERS:
            raise InvalidRequest(f"{len(servers)} servers are too many; at most {MOST_SERVERS}")
        gone: set[str] = set()

        def change(stored: dict[str, Entry]) -> dict[str, Entry]:
            gone.update(stored.keys() - servers.keys())
            return {name: self._checked(name, entry, stored.get(name)) for name, entry in servers.items()}

        await self._change(change)
        for name in gone:
            await self._forget(name)
        return await self.config()

    async def put(self, name: str, entry: Entry, user_id: str) -> ServerView:
        """Add a server, or replace its entry; raises what `replace` does."""

        def change(stored: dict[str, Entry]) -> dict[str, Entry]:
            if name not in stored and len(stored) >= MOST_SERVERS:
                raise Conflict(f"there are {MOST_SERVERS} servers already")
            return {**stored, name: self._checked(name, entry, stored.get(name))}

        await self._change(change)
        return await self.get(name, user_id)

    async def remove(self, name: str) -> None:
        """Remove a server, with everybody's logins there and what was accepted of it.

        Raises:
            NotFound: There is no such server.
        """

        def change(stored: dict[str, Entry]) -> dict[str, Entry]:
            need(stored, name)
            return {key: entry for key, entry in stored.items() if key != name}

        await self._change(change)
        await self._forget(name)
        await self.catalog.let_go()

    async def switch(self, name: str, *, enabled: bool) -> ShownConfig:
        """Switch a server on or off, for every run that begins from now on.

        Raises:
            NotFound: There is no such server.
        """

        def change(stored: dict[str, Entry]) -> dict[str, Entry]:
            return {**stored, name: {**need(stored, name), "enabled": enabled}}

        await self._change(change)
        return await self.config()

    async def list(self, user_id: str) -> Sequence[ServerView]:
        """All servers; those that nobody has asked yet are asked now, and not waited for."""
        await self.catalog.settle(user_id, wait_s=0.0)
        servers = self.file.current().mcp_servers
        statuses = {status.name: status for status in self.catalog.statuses(user_id)}
        return [
            ServerView(name, config, statuses.get(name, ServerStatus(name, "idle")), await self.login(name, user_id))
            for name, config in servers.items()
        ]

    async def get(self, name: str, user_id: str) -> ServerView:
        """One server.

        Raises:
            NotFound: There is no such server.
        """
        self._need(name)
        return next(view for view in await self.list(user_id) if view.name == name)

    async def reconnect(self, name: str, user_id: str) -> ServerView:
        """Ask a server again, and wait a moment for what comes of it; raises what `get` does."""
        self._need(name)
        self.catalog.drop(name)
        for _ in range(2):  # the first time it may turn out that each person logs in there: then they are asked about
            await self.catalog.settle(user_id, wait_s=RECONNECT_S)
        return await self.get(name, user_id)

    def reset(self) -> None:
        """Forget what is known of all servers; they are asked again when they are next needed."""
        self.catalog.drop()

    async def pinned(self, name: str) -> Sequence[Pin]:
        """What was accepted of a server's tools, and what waits to be.

        Raises:
            NotFound: There is no such server.
        """
        self._need(name)
        return await self.pins.list(name)

    async def accept(self, name: str, seen: Mapping[str, str], user_id: str) -> Sequence[Pin]:
        """Accept tools as somebody has seen them, told by their hashes.

        Raises:
            NotFound: There is no such server, or nothing to accept.
            Conflict: A tool has changed again.
        """
        self._need(name)
        await self.pins.accept(name, seen, user_id)
        await self.catalog.recheck(name)
        return await self.pins.list(name)

    async def start_login(self, name: str, user_id: str, redirect_uri: str, return_to: str | None) -> Started:
        """Begin a login in a browser; raises what `LoginDesk.start` does."""
        return await self.logins.start(name, user_id, redirect_uri, return_to)

    async def finish_login(self, user_id: str, back: CameBack) -> Finished:
        """Keep what a browser brings back; raises what `LoginDesk.finish` does."""
        finished = await self.logins.finish(user_id, back)
        if finished.problem is None:
            self.catalog.refresh(finished.server)
        return finished

    async def logged_in(self, user_id: str, back: CameBack) -> str:
        """The same for a program: the server's name, or `McpLoginFailed` whatever went wrong."""
        finished = await self.finish_login(user_id, back)
        if finished.problem is not None:
            raise McpLoginFailed(finished.problem)
        return finished.server

    async def login(self, name: str, user_id: str) -> LoginStatus:
        """How things stand with a user's login.

        Raises:
            NotFound: There is no such server.
        """
        self._need(name)
        return await self.logins.status(name, user_id)

    async def forget_login(self, name: str, user_id: str) -> None:
        """Forget a user's login at a server; raises what `login` does."""
        self._need(name)
        await self.logins.forget(user_id, name)
        self.catalog.drop(name)

    def _need(self, name: str) -> McpServerConfig:
        found = self.file.current().mcp_servers.get(name)
        if found is None:
            raise NotFound(f"no MCP server {name!r}")
        return found

    def _checked(self, name: str, sent: Entry, stored: Entry | None) -> dict[str, Any]:
        """An entry as it is to be written."""
        entry = restored_entry(name, sent, stored)
        check_entry(name, entry, stored, allowed_commands(self.file.environment))
        return entry

    async def _change(self, change: Change) -> None:
        await asyncio.to_thread(self._change_file, change)
        self.file.current()

    def _change_file(self, change: Change) -> None:
        was_read = False

        def changed(written: Written) -> Written:
            nonlocal was_read
            was_read = True
            return with_servers(written, change(dict(entries_in(written))))

        try:
            change_extensions(self.file.path(), changed, self.file.environment)
        except WrongConfig as problem:
            if was_read:  # the file is well, but what was to be written is not
                raise InvalidRequest(str(problem)) from problem
            raise

    async def _forget(self, name: str) -> None:
        self.catalog.drop(name)
        await self.logins.forget_server(name)
        await self.pins.forget(name)


def entries_in(written: Written) -> Mapping[str, Entry]:
    """The entries of servers in a file."""
    return written.get("mcpServers") or {}


def need(stored: Mapping[str, Entry], name: str) -> Entry:
    """An entry, or `NotFound`."""
    if name not in stored:
        raise NotFound(f"no MCP server {name!r}")
    return stored[name]


def says_read_only(card: ToolCard) -> bool | None:
    """Whether a server says of a tool that it changes nothing; None when it says nothing."""
    said = card.annotations.get("readOnlyHint")
    return said if isinstance(said, bool) else None
