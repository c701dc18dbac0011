"""Catalog of the configured MCP servers: their state, and the tools they offer to agents."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

from deerflow.config.loader.files import replace_file
from deerflow.config.sections.base import Settings
from deerflow.config.sections.extensions import McpServerConfig, McpToolConfig
from deerflow.domain.errors import ConfigError, DeerFlowError, NotFound
from deerflow.domain.taint import escape_invisible
from deerflow.domain.tools import MCP_TOOL
from deerflow.mcp.auth.tokens import LoginRequired, TokenProvider
from deerflow.mcp.pins import PinCheck, ToolPins
from deerflow.mcp.session.calls import McpCallResult, McpSession, McpToolCall, ServerAddress
from deerflow.mcp.session.pool import SessionPool
from deerflow.mcp.status import (
    McpPromptInfo,
    McpResourceInfo,
    McpToolInfo,
    ServerListing,
    ServerState,
    ServerStatus,
    ToolOffer,
    escape_status,
    suggest_fix,
)
from deerflow.mcp.tools import make_tools, wait_for_result

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 2.0
"""Time the first run waits for an unknown server."""
FIRST_COMPLAINT_S = 15.0
"""Time after which a server that is being connected is reported with a remedy."""
RETRY_S = 15.0
"""Delay after a failure; doubles with each further failure."""
MAX_RETRY_S = 600.0
CACHE_VERSION = 1
MAX_CACHE_BYTES = 32 * 1024 * 1024

ServerConfigs = Mapping[str, McpServerConfig]


class WatchedServer:
    """State of one server with its current configuration; per user where each user logs in."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.state: ServerState = "idle"
        self.error: str | None = None
        self.since = datetime.now(UTC)
        self.listing: ServerListing | None = None
        self.pin_check = PinCheck(())
        self.tools: tuple[BaseTool, ...] = ()
        self.version = ""
        self.refresh_task: asyncio.Task[None] | None = None
        self.known = asyncio.Event()
        """Set once something is known: what it offers, or that it does not answer."""
        self.failures = 0
        self.retry_at = 0.0
        self.session: McpSession | None = None
        """Session in which the server is listed, kept for its log until the server is ready."""

    def observe(self, session: McpSession) -> None:
        """Keep the session in which the server is listed."""
        self.session = session

    def set_state(self, state: ServerState, error: str | None = None) -> None:
        """Record a change of state."""
        if (state, error) != (self.state, self.error):
            self.state, self.error, self.since = state, error, datetime.now(UTC)

    def to_status(self, redact: Callable[[str], str]) -> ServerStatus:
        """Return the status for users."""
        log = self.session.log if self.session is not None else ""
        waited_s = (datetime.now(UTC) - self.since).total_seconds()
        error = self.error
        if self.state == "connecting" and waited_s > FIRST_COMPLAINT_S:
            limit = self.address.config.session_init_timeout
            error = f"no answer yet; it has {limit:g} s to start{suggest_fix(self.address.config)}"
        listing = self.listing or ServerListing()
        accepted = frozenset(self.pin_check.accepted)
        status = ServerStatus(
            name=self.address.server,
            state=self.state,
            error=error,
            tools=tuple(tool for tool in listing.tools if tool.name in accepted),
            resources=listing.resources,
            prompts=listing.prompts,
            since=self.since,
            changed_tools=tuple(diff.name for diff in self.pin_check.changed),
            log=redact(log),
        )
        return escape_status(status)


class McpCatalog:
    """Answers immediately from what is known. Servers are listed in the background, independently of each other."""

    def __init__(
        self,
        servers: Settings[ServerConfigs],
        sessions: SessionPool,
        cache: "ToolListCache",
        *,
        pins: ToolPins,
        tokens: TokenProvider,
        redact: Callable[[str], str] = str,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        """Create a catalog. `servers` is called before every use, so configuration changes apply to the next run."""
        self._servers = servers
        self._sessions = sessions
        self._cache = cache
        self._pins = pins
        self._tokens = tokens
        self._redact = redact
        self._first_wait_s = first_wait_s
        self._watched: dict[tuple[str, str], WatchedServer] = {}
        self._current_configs: tuple[ServerConfigs, dict[str, str]] = ({}, {})
        self._tasks: set[asyncio.Task[None]] = set()
        self._forgetting: set[asyncio.Task[None]] = set()
        sessions.on_listing(self.record_listing)

    def offer(self, user_id: str) -> ToolOffer:
        """Return the tools for a user. Never waits, and may be called in any thread."""
        known = [
            watched
            for name, server in self._current().items()
            if server.enabled and (watched := self._find(name, user_id)) is not None and watched.tools
        ]
        if not known:
            return ToolOffer()
        tools = tuple(tool for watched in known for tool in watched.tools if self._is_enabled(watched, tool))
        left_out = sum(len(watched.tools) for watched in known) - len(tools)
        version = " ".join(watched.version for watched in known)
        if left_out:
            version = f"{version} {sha256(repr([tool.name for tool in tools]).encode()).hexdigest()[:16]}"
        return ToolOffer(version, tools)

    def statuses(self, user_id: str) -> tuple[ServerStatus, ...]:
        """Return the status of every configured server, in the order of the configuration."""
        statuses = []
        for name, server in self._current().items():
            watched = self._find(name, user_id)
            if not server.enabled:
                statuses.append(ServerStatus(name, "disabled"))
            else:
                statuses.append(watched.to_status(self._redact) if watched else ServerStatus(name, "idle"))
        return tuple(statuses)

    async def prepare(self, user_id: str, wait_s: float | None = None) -> None:
        """Make sure servers are listed, and wait a moment for those that are not known yet.

        Only the first caller waits; with `wait_s`, every caller does, for that long.
        """
        servers = {name: server for name, server in self._current().items() if server.enabled}
        await self.close_removed()
        if not servers:
            return
        waiting = []
        for name in servers:
            watched = self._watch(name, user_id)
            is_awaited = wait_s is not None or watched.state == "idle"
            self._refresh_if_due(watched)
            if is_awaited and not watched.known.is_set():
                waiting.append(asyncio.create_task(watched.known.wait()))
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._first_wait_s if wait_s is None else wait_s)
            for task in late:
                task.cancel()

    async def close_removed(self) -> None:
        """End the sessions with servers that are no longer configured, and remove the files of their processes."""
        await self._sessions.close_removed(set(self._keys.values()))

    def refresh(self, server: str | None = None) -> None:
        """List one server, or all, again. Servers not listed before are listed when they are needed."""
        for (name, _), watched in self._watched.items():
            if server in (None, name):
                watched.failures, watched.retry_at = 0, 0.0
                self._refresh_if_due(watched, is_requested=True)

    def forget(self, server: str | None = None) -> None:
        """Forget the listing of one server, or of all, also on disk. The next run lists it again."""
        for key in [key for key in self._watched if server in (None, key[0])]:
            watched = self._watched.pop(key)
            if watched.refresh_task is not None:
                watched.refresh_task.cancel()
            task = asyncio.to_thread(self._cache.forget, watched.address)
            forgetting = self._start_task(task, f"forgetting what {key[0]} offers")
            self._forgetting.add(forgetting)
            forgetting.add_done_callback(self._forgetting.discard)

    async def recheck(self, server: str | None = None) -> None:
        """Check known listings against the pins again, after an admin has accepted tools."""
        for (name, _), watched in list(self._watched.items()):
            if server in (None, name) and watched.listing is not None:
                await self._adopt(watched, watched.listing)

    async def record_listing(self, address: ServerAddress, listing: ServerListing) -> None:
        """Record the listing a server has just returned."""
        watched = self._watched.get((address.server, self._scope(address.server, address.user_id)))
        if watched is None or watched.address.config_key != address.config_key:
            return
        watched.failures, watched.retry_at = 0, 0.0
        if listing != watched.listing:
            await asyncio.to_thread(self._cache.put, watched.address, listing)
        await self._adopt(watched, listing)

    async def forget_thread(self, thread_id: str, user_id: str) -> None:
        """End the sessions of a thread."""
        await self._sessions.close_thread(thread_id, user_id)

    async def aclose(self) -> None:
        """Stop listing, and end all sessions."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._sessions.aclose()

    def find_tool(self, server: str, tool: str, user_id: str) -> tuple[ServerAddress, McpToolInfo]:
        """Return an accepted tool of a connected server by the name that people see.

        Raises:
            NotFound: The server has no such tool, or it was not accepted.
        """
        watched = self._find(server, user_id) if server in self._current() else None
        listed = watched.listing.tools if watched is not None and watched.listing is not None else ()
        for info in listed:
            if watched is not None and escape_invisible(info.name) == tool and info.name in watched.pin_check.accepted:
                return replace(watched.address, config=self._current()[server], user_id=user_id), info
        raise NotFound(f"the MCP server {server!r} offers no tool {tool!r}")

    async def call(self, address: ServerAddress, request: McpToolCall, timeout_s: float) -> McpCallResult:
        """Call a tool outside of a thread and return its result.

        Raises:
            McpServerError: The call has failed; the text says why.
            LoginRequired: The user has to log in first.
        """
        session = await self._sessions.acquire(address)
        return await wait_for_result(session.begin(request), request.tool, address, timeout_s)

    def _is_enabled(self, watched: WatchedServer, tool: BaseTool) -> bool:
        settings = self._current_configs[0][watched.address.server].tools.get((tool.metadata or {})[MCP_TOOL])
        return settings is None or settings.enabled

    @property
    def _keys(self) -> Mapping[str, str]:
        self._current()
        return self._current_configs[1]

    def _current(self) -> ServerConfigs:
        servers = self._servers.current
        if servers is not self._current_configs[0]:
            self._current_configs = servers, {name: config_key(name, server) for name, server in servers.items()}
        return servers

    def _scope(self, name: str, user_id: str) -> str:
        return user_id if self._tokens.is_personal(name) else ""

    def _find(self, name: str, user_id: str) -> WatchedServer | None:
        watched = self._watched.get((name, self._scope(name, user_id)))
        return watched if watched and watched.address.config_key == self._current_configs[1].get(name) else None

    def _watch(self, name: str, user_id: str) -> WatchedServer:
        """Return the state of a server; a fresh one when it is new or its configuration has changed."""
        if watched := self._find(name, user_id):
            return watched
        key = (name, self._scope(name, user_id))
        if (former := self._watched.get(key)) and former.refresh_task is not None:
            former.refresh_task.cancel()
        address = ServerAddress(name, self._current_configs[0][name], self._current_configs[1][name], key[1], None)
        self._watched[key] = WatchedServer(address)
        return self._watched[key]

    def _refresh_if_due(self, watched: WatchedServer, *, is_requested: bool = False) -> None:
        if watched.refresh_task is not None and not watched.refresh_task.done():
            return
        is_wanted = is_requested or watched.state in ("idle", "failed", "needs_login")
        if is_wanted and time.monotonic() >= watched.retry_at:
            watched.refresh_task = self._start_task(
                self._refresh(watched), f"asking the MCP server {watched.address.server!r}"
            )

    async def _refresh(self, watched: WatchedServer) -> None:
        """List a server and record the result."""
        if self._forgetting:
            await asyncio.wait(self._forgetting)  # a forgotten listing must not be read again
        if watched.listing is None and (known := await asyncio.to_thread(self._cache.get, watched.address)):
            await self._adopt(watched, known)
        watched.set_state("connecting")
        try:
            listing = await self._sessions.fetch_listing(watched.address, watched.observe)
        except LoginRequired as problem:
            watched.set_state("needs_login", self._redact(str(problem)))
            self._back_off(watched)
        except DeerFlowError as problem:
            watched.set_state("failed", self._redact(str(problem)))
            logger.warning("MCP server %r is not available: %s", watched.address.server, watched.error)
            self._back_off(watched)
        else:
            await self.record_listing(watched.address, listing)
        watched.known.set()

    def _back_off(self, watched: WatchedServer) -> None:
        watched.failures += 1
        watched.retry_at = time.monotonic() + min(RETRY_S * 2 ** (watched.failures - 1), MAX_RETRY_S)

    async def _adopt(self, watched: WatchedServer, listing: ServerListing) -> None:
        pin_check = await self._pins.check(watched.address.server, listing.tools)
        accepted = frozenset(pin_check.accepted)
        cards = [card for card in listing.tools if card.name in accepted]
        watched.listing, watched.pin_check = listing, pin_check
        watched.tools = make_tools(watched.address, cards, self._sessions)
        watched.version = sha256(repr((watched.address.config_key, cards)).encode()).hexdigest()[:16]
        watched.set_state("changed" if pin_check.changed else "ready")
        watched.session = None
        watched.known.set()

    def _start_task(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("task failed: %s", task.get_name(), exc_info=problem)


def config_key(name: str, server: McpServerConfig) -> str:
    """Return a key that is equal for equal entries: a listing is valid as long as the entry is unchanged."""
    # Which tools are offered is no reason to connect again.
    switched_on = {tool: settings.model_copy(update={"enabled": True}) for tool, settings in server.tools.items()}
    tools = {tool: settings for tool, settings in switched_on.items() if settings != McpToolConfig()}
    written = server.model_copy(update={"tools": tools}).model_dump_json()
    return sha256(f"{name}\n{written}".encode()).hexdigest()[:32]


class ToolListCache:
    """Listings on disk, so that the next start need not wait for servers. One file per entry; all methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, address: ServerAddress) -> ServerListing | None:
        """Return the cached listing; None when there is none or it cannot be read."""
        file = self._file(address)
        try:
            if file.stat().st_size > MAX_CACHE_BYTES:
                return None
            return parse_listing(json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as problem:
            logger.warning("cannot read the cached listing of MCP server %r: %s", address.server, problem)
            return None

    def put(self, address: ServerAddress, listing: ServerListing) -> None:
        """Store a listing."""
        content = json.dumps({"version": CACHE_VERSION, **asdict(listing)}).encode(errors="backslashreplace")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._file(address), content)
        except (OSError, ConfigError) as problem:
            logger.warning("cannot cache the listing of MCP server %r: %s", address.server, problem)

    def forget(self, address: ServerAddress) -> None:
        """Delete a listing."""
        self._file(address).unlink(missing_ok=True)

    def _file(self, address: ServerAddress) -> Path:
        owner = f"{address.config_key} {address.user_id}"
        return self._folder / f"{sha256(owner.encode()).hexdigest()[:32]}.json"


def parse_listing(stored: dict[str, Any]) -> ServerListing:
    """Return the listing stored in a file."""
    if stored["version"] != CACHE_VERSION:
        raise ValueError(f"version {stored['version']!r} is not known")
    return ServerListing(
        tuple(McpToolInfo(**each) for each in stored["tools"]),
        tuple(McpResourceInfo(**each) for each in stored["resources"]),
        tuple(McpPromptInfo(**{**each, "arguments": tuple(each["arguments"])}) for each in stored["prompts"]),
    )
