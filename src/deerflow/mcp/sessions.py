"""The sessions with servers: one per thread where a process is started, one per user where it is remote."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol, cast

from deerflow.config.imports import load_object
from deerflow.mcp.auth import TokenSource
from deerflow.mcp.calls import Address, Session
from deerflow.mcp.status import Listing
from deerflow.sandbox.services import Service, ServiceOrder

logger = logging.getLogger(__name__)

SESSION = "deerflow.mcp.connection:ServerSession"
"""By name: what speaks the protocol takes long to import, and most servers never need it."""
IDLE_S = 600.0
MOST = 64

Key = tuple[str, str, str, str]
Listener = Callable[[Address, Listing], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SessionKit:
    """What sessions are made from."""

    start: Callable[[ServiceOrder], Awaitable[Service]]
    tokens: TokenSource
    keep_homes: Callable[[Collection[str]], Awaitable[None]] | None = None
    """Removes what programs have left that no entry speaks of any more."""


class MakeSession(Protocol):
    """Makes a session, which is not open yet."""

    def __call__(
        self, address: Address, kit: SessionKit, on_listing: Callable[[Listing], Awaitable[None]]
    ) -> Session: ...


class Slot:
    """A session that is kept, or on its way."""

    def __init__(self, address: Address, opening: asyncio.Task[Session]) -> None:
        self.address = address
        self.opening = opening
        self.timer: asyncio.TimerHandle | None = None

    @property
    def session(self) -> Session | None:
        done = self.opening.done() and not self.opening.cancelled() and self.opening.exception() is None
        return self.opening.result() if done else None

    @property
    def is_of_use(self) -> bool:
        """Whether it is open or may be soon."""
        return not self.opening.done() or (self.session is not None and not self.session.is_over)


class SessionPool:
    """Opens sessions when they are first needed and closes those that nobody uses."""

    def __init__(
        self, kit: SessionKit, *, idle_s: float = IDLE_S, most: int = MOST, make: MakeSession | None = None
    ) -> None:
        """`make` is found by its name when it is first needed."""
        self._kit = kit
        self._idle_s = idle_s
        self._most = most
        self._slots: dict[Key, Slot] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None
        self._make = make
        self._kept: frozenset[str] | None = None

    def listen(self, listener: Listener) -> None:
        """Have `listener` told whenever a server says what it offers."""
        self._listener = listener

    async def look(self, address: Address) -> Listing:
        """Ask a server what it offers, in a session that nobody else uses.

        Raises:
            McpProblem: It did not answer; the text says why.
            LoginNeeded: The user has to log in first.
        """
        session = await self._new(address)
        try:
            return await session.open()
        finally:
            await self._surely_close(session)

    async def acquire(self, address: Address) -> Session:
        """An open session; one that has ended is replaced.

        Raises:
            McpProblem: None can be had; the text says why.
            LoginNeeded: The user has to log in first.
        """
        key = key_of(address)
        slot = self._slots.get(key)
        if slot is None or not slot.is_of_use:
            opening = asyncio.create_task(self._open(address), name=f"opening the MCP server {address.server!r}")
            opening.add_done_callback(forget_failure)
            slot = self._slots[key] = Slot(address, opening)
        self._slots[key] = self._slots.pop(key)  # the one used last stands last
        self._wait_for_idleness(key, slot)
        self._close_surplus()
        # Whoever asked may be cancelled: others may wait for the same session.
        return await asyncio.shield(slot.opening)

    def ready(self, address: Address) -> Session | None:
        """The session, if it is open."""
        slot = self._slots.get(key_of(address))
        return slot.session if slot and slot.session and not slot.session.is_over else None

    async def keep_only(self, config_keys: Collection[str]) -> None:
        """Close the sessions of servers that have been configured anew, or are gone, and are not at work.

        What their programs have left for others goes too, the first time and whenever something was configured.
        """
        for key, slot in list(self._slots.items()):
            if slot.address.config_key not in config_keys and not (slot.session and slot.session.is_busy):
                self._drop(key)
        if self._kit.keep_homes is not None and self._kept != config_keys:
            self._kept = frozenset(config_keys)
            await self._kit.keep_homes(self._kept)

    async def forget(self, thread_id: str, user_id: str) -> None:
        """End what was started for a thread."""
        for key, slot in list(self._slots.items()):
            if (slot.address.thread_id, slot.address.user_id) == (thread_id, user_id):
                self._drop(key)
        if self._endings:
            await asyncio.wait(self._endings)

    async def aclose(self) -> None:
        """End all sessions."""
        for key in list(self._slots):
            self._drop(key)
        if self._endings:
            await asyncio.wait(self._endings)

    async def _new(self, address: Address) -> Session:
        if self._make is None:
            self._make = cast(MakeSession, await asyncio.to_thread(load_object, SESSION))

        async def tell(listing: Listing) -> None:
            if self._listener is not None:
                await self._listener(address, listing)

        return self._make(address, self._kit, tell)

    async def _open(self, address: Address) -> Session:
        session = await self._new(address)
        try:
            listing = await session.open()
        except BaseException:
            await self._surely_close(session)
            raise
        if self._listener is not None:
            await self._listener(address, listing)
        return session

    def _wait_for_idleness(self, key: Key, slot: Slot) -> None:
        if slot.timer is not None:
            slot.timer.cancel()
        slot.timer = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle, key, slot)

    def _end_idle(self, key: Key, slot: Slot) -> None:
        if self._slots.get(key) is not slot:
            return
        if not slot.opening.done() or (slot.session and slot.session.is_busy):
            self._wait_for_idleness(key, slot)
        else:
            self._drop(key)

    def _close_surplus(self) -> None:
        idle = [key for key, slot in self._slots.items() if slot.session and not slot.session.is_busy]
        for key in idle[: max(0, len(self._slots) - self._most)]:
            self._drop(key)

    def _drop(self, key: Key) -> None:
        slot = self._slots.pop(key)
        if slot.timer is not None:
            slot.timer.cancel()
        ending = asyncio.create_task(self._end(slot))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _end(self, slot: Slot) -> None:
        slot.opening.cancel()
        await asyncio.wait({slot.opening})
        if slot.session is not None:
            await slot.session.aclose()

    async def _surely_close(self, session: Session) -> None:
        """Close a session, also when whoever waits is told to stop meanwhile."""
        ending = asyncio.create_task(session.aclose())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.shield(ending)


def key_of(address: Address) -> Key:
    """Who shares a session."""
    thread = (address.thread_id or "") if address.config.type == "stdio" else ""
    return address.server, address.config_key, address.user_id, thread


def forget_failure(task: "asyncio.Task[Session]") -> None:
    """Have a failure told only to those who wait."""
    if not task.cancelled():
        task.exception()
