"""Which servers there are, how things stand with them, and what they offer to agents."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from langchain_core.tools import BaseTool

from deerflow.config.extensions import McpServerConfig
from deerflow.domain.errors import DeerFlowError
from deerflow.mcp.auth import LoginNeeded, NoTokens, TokenSource
from deerflow.mcp.calls import Address
from deerflow.mcp.offer import Offer
from deerflow.mcp.pins import AcceptAll, Pins, PinVerdict
from deerflow.mcp.sessions import SessionPool
from deerflow.mcp.shelf import ListingShelf
from deerflow.mcp.status import Listing, ServerState, ServerStatus
from deerflow.mcp.tools import make_tools

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 2.0
"""So long the first run waits for a server that nothing is known of."""
AGAIN_S = 15.0
"""After a failure so long passes before the next try; twice that after the second, and so on."""
LONGEST_PAUSE_S = 600.0

Servers = Mapping[str, McpServerConfig]


class Watched:
    """What is known of one server, as it is configured; for one user where each logs in."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.state: ServerState = "idle"
        self.error: str | None = None
        self.since = datetime.now(UTC)
        self.listing: Listing | None = None
        self.verdict = PinVerdict(())
        self.tools: tuple[BaseTool, ...] = ()
        self.version = ""
        self.looking: asyncio.Task[None] | None = None
        self.settled = asyncio.Event()
        """Set once something is known: what it offers, or that it does not work."""
        self.failures = 0
        self.not_before = 0.0

    def become(self, state: ServerState, error: str | None = None) -> None:
        """Note how things stand."""
        if (state, error) != (self.state, self.error):
            self.state, self.error, self.since = state, error, datetime.now(UTC)

    def show(self) -> ServerStatus:
        """As people see it."""
        listing = self.listing or Listing()
        accepted = frozenset(self.verdict.accepted)
        return ServerStatus(
            name=self.address.server,
            state=self.state,
            error=self.error,
            tools=tuple(tool for tool in listing.tools if tool.name in accepted),
            resources=listing.resources,
            prompts=listing.prompts,
            since=self.since,
            changed_tools=tuple(diff.name for diff in self.verdict.changed),
        )


class McpCatalog:
    """Answers at once from what is known; servers are asked in the background, each for itself."""

    def __init__(
        self,
        servers: Callable[[], Servers],
        sessions: SessionPool,
        shelf: ListingShelf,
        *,
        pins: Pins | None = None,
        tokens: TokenSource | None = None,
        hide: Callable[[str], str] = str,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        """`servers` is asked before every use, so that an edit of the configuration counts for the next run."""
        self._servers = servers
        self._sessions = sessions
        self._shelf = shelf
        self._pins: Pins = pins or AcceptAll()
        self._tokens: TokenSource = tokens or NoTokens()
        self._hide = hide
        self._first_wait_s = first_wait_s
        self._watched: dict[tuple[str, str], Watched] = {}
        self._seen: tuple[Servers, dict[str, str]] = ({}, {})
        self._tasks: set[asyncio.Task[None]] = set()
        sessions.listen(self.take_in)

    def offer(self, user_id: str) -> Offer:
        """The tools for somebody; never waits, and may be asked in any thread."""
        known = [
            watched
            for name, server in self._current().items()
            if server.enabled and (watched := self._find(name, user_id)) is not None and watched.tools
        ]
        if not known:
            return Offer()
        version = " ".join(watched.version for watched in known)
        return Offer(version, tuple(tool for watched in known for tool in watched.tools))

    def tools(self, user_id: str) -> tuple[BaseTool, ...]:
        """The tools of `offer`."""
        return self.offer(user_id).tools

    def statuses(self, user_id: str) -> tuple[ServerStatus, ...]:
        """How things stand with every configured server, in the order of the configuration."""
        shown = []
        for name, server in self._current().items():
            watched = self._find(name, user_id)
            if not server.enabled:
                shown.append(ServerStatus(name, "disabled"))
            else:
                shown.append(watched.show() if watched else ServerStatus(name, "idle"))
        return tuple(shown)

    async def settle(self, user_id: str, wait_s: float | None = None) -> None:
        """See to it that servers are asked, and wait a moment for those of which nothing is known.

        Only whoever asks first waits; with `wait_s`, everybody does, and so long.
        """
        servers = {name: server for name, server in self._current().items() if server.enabled}
        await self.let_go()
        if not servers:
            return
        unknown = []
        for name in servers:
            watched = self._watch(name, user_id)
            is_awaited = wait_s is not None or watched.state == "idle"
            self._look_if_due(watched)
            if is_awaited and not watched.settled.is_set():
                unknown.append(asyncio.create_task(watched.settled.wait()))
        if unknown:
            _, late = await asyncio.wait(unknown, timeout=self._first_wait_s if wait_s is None else wait_s)
            for task in late:
                task.cancel()

    async def let_go(self) -> None:
        """End the sessions with servers that are configured no more, and remove what their programs have left."""
        await self._sessions.keep_only(set(self._keys.values()))

    def refresh(self, server: str | None = None) -> None:
        """Ask one server, or all, again; those that were not asked yet are when they are needed."""
        for (name, _), watched in self._watched.items():
            if server in (None, name):
                watched.failures, watched.not_before = 0, 0.0
                self._look_if_due(watched, is_asked=True)

    def drop(self, server: str | None = None) -> None:
        """Forget what is known of one server, or of all, also on disk; the next run asks again."""
        for key in [key for key in self._watched if server in (None, key[0])]:
            watched = self._watched.pop(key)
            if watched.looking is not None:
                watched.looking.cancel()
            self._begin(asyncio.to_thread(self._shelf.forget, watched.address), f"forgetting what {key[0]} offers")

    async def recheck(self, server: str | None = None) -> None:
        """Judge anew what is known: an admin has accepted something."""
        for (name, _), watched in list(self._watched.items()):
            if server in (None, name) and watched.listing is not None:
                await self._adopt(watched, watched.listing)

    async def take_in(self, address: Address, listing: Listing) -> None:
        """Note what a server has just said it offers."""
        watched = self._watched.get((address.server, self._scope(address.server, address.user_id)))
        if watched is None or watched.address.config_key != address.config_key:
            return
        watched.failures, watched.not_before = 0, 0.0
        if listing != watched.listing:
            await asyncio.to_thread(self._shelf.put, watched.address, listing)
        await self._adopt(watched, listing)

    async def forget_thread(self, thread_id: str, user_id: str) -> None:
        """End what was started for a thread."""
        await self._sessions.forget(thread_id, user_id)

    async def aclose(self) -> None:
        """Stop asking, and end all sessions."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._sessions.aclose()

    @property
    def _keys(self) -> Mapping[str, str]:
        self._current()
        return self._seen[1]

    def _current(self) -> Servers:
        servers = self._servers()
        if servers is not self._seen[0]:
            self._seen = servers, {name: config_key(name, server) for name, server in servers.items()}
        return servers

    def _scope(self, name: str, user_id: str) -> str:
        return user_id if self._tokens.is_personal(name) else ""

    def _find(self, name: str, user_id: str) -> Watched | None:
        watched = self._watched.get((name, self._scope(name, user_id)))
        return watched if watched and watched.address.config_key == self._seen[1].get(name) else None

    def _watch(self, name: str, user_id: str) -> Watched:
        """What is known of a server; nothing yet when it is new or was configured anew."""
        if watched := self._find(name, user_id):
            return watched
        key = (name, self._scope(name, user_id))
        if (former := self._watched.get(key)) and former.looking is not None:
            former.looking.cancel()
        address = Address(name, self._seen[0][name], self._seen[1][name], key[1], None)
        self._watched[key] = Watched(address)
        return self._watched[key]

    def _look_if_due(self, watched: Watched, *, is_asked: bool = False) -> None:
        if watched.looking is not None and not watched.looking.done():
            return
        is_wanted = is_asked or watched.state in ("idle", "failed", "needs_login")
        if is_wanted and time.monotonic() >= watched.not_before:
            watched.looking = self._begin(self._look(watched), f"asking the MCP server {watched.address.server!r}")

    async def _look(self, watched: Watched) -> None:
        """Ask a server what it offers; whatever happens is noted."""
        if watched.listing is None and (known := await asyncio.to_thread(self._shelf.get, watched.address)):
            await self._adopt(watched, known)
        watched.become("connecting")
        try:
            listing = await self._sessions.look(watched.address)
        except LoginNeeded as problem:
            watched.become("needs_login", self._hide(str(problem)))
            self._pause(watched)
        except DeerFlowError as problem:
            watched.become("failed", self._hide(str(problem)))
            logger.warning("the MCP server %r cannot be used: %s", watched.address.server, watched.error)
            self._pause(watched)
        else:
            await self.take_in(watched.address, listing)
        watched.settled.set()

    def _pause(self, watched: Watched) -> None:
        watched.failures += 1
        watched.not_before = time.monotonic() + min(AGAIN_S * 2 ** (watched.failures - 1), LONGEST_PAUSE_S)

    async def _adopt(self, watched: Watched, listing: Listing) -> None:
        verdict = await self._pins.check(watched.address.server, listing.tools)
        accepted = frozenset(verdict.accepted)
        cards = [card for card in listing.tools if card.name in accepted]
        watched.listing, watched.verdict = listing, verdict
        watched.tools = make_tools(watched.address, cards, self._sessions)
        watched.version = sha256(repr((watched.address.config_key, cards)).encode()).hexdigest()[:16]
        watched.become("changed" if verdict.changed else "ready")
        watched.settled.set()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("%s has failed", task.get_name(), exc_info=problem)


def config_key(name: str, server: McpServerConfig) -> str:
    """Equal for equal entries: what was learned of a server holds as long as its entry does."""
    return sha256(f"{name}\n{server.model_dump_json()}".encode()).hexdigest()[:32]
