"""Connections to chat apps: one task per channel, which reconnects for ever, and its state."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from random import uniform
from typing import Any

from deerflow.channels import queries as rows
from deerflow.channels.adapter import BotAccount, ChannelAdapter, ChannelError, ChannelFlooded, InboundUpdate
from deerflow.channels.apps import create_adapters
from deerflow.channels.delivery import ChatDelivery
from deerflow.channels.inbox import ChatInbox
from deerflow.channels.lease import LOCKS, MAX_LEASE_S, POLL_S, ChannelLease, is_database_shared
from deerflow.channels.people import ChannelPeople
from deerflow.channels.saved import SavedChannels, select_apps
from deerflow.config.sections.channels import ChatAppConfig
from deerflow.domain.errors import DeerFlowError, StorageUnavailable
from deerflow.domain.runs import MultitaskStrategy
from deerflow.harness import Harness
from deerflow.persistence.engine.liveness import hold_process_lock
from deerflow.runtime.background import (
    complete_before_cancel,
    log_task_exception,
    run_unless_unavailable,
    wait_for_event,
)

logger = logging.getLogger(__name__)

FIRST_RETRY_S, MAX_RETRY_S = 1.0, 60.0
CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class ChannelState:
    """State of a channel, as people see it; it is stored with the lease."""

    bot: str = ""
    """Name of the bot, once it has logged in."""
    connected_since: str | None = None
    last_error: str | None = None
    last_error_at: str | None = None
    received: int = 0
    sent: int = 0

    def to_json(self) -> Mapping[str, Any]:
        """Return what is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "ChannelState":
        """Return the state that was stored, by this or another version."""
        return cls(**{key: value for key, value in stored.items() if key in cls.__dataclass_fields__})


@dataclass(slots=True)
class ChannelConnection:
    """Connection to one chat app, while this process holds its lease. It is used once."""

    harness: Harness
    adapter: ChannelAdapter
    allowed: Callable[[], Sequence[int | str]]
    strategy: Callable[[], MultitaskStrategy]
    lease: ChannelLease
    app: Callable[[], ChatAppConfig | None] = lambda: None
    """Returns the settings of the chat app."""
    state: ChannelState = ChannelState()
    _task: asyncio.Task[None] | None = None
    _requests: asyncio.Event = field(default_factory=asyncio.Event)
    _retry_s: float = FIRST_RETRY_S
    _is_recovered: bool = False

    def begin(self) -> None:
        """Connect in the background."""
        self._task = asyncio.create_task(self._hold(), name=f"channel {self.adapter.name}")
        self._task.add_done_callback(log_task_exception)

    @property
    def is_over(self) -> bool:
        """True if the lease was lost, or a restart was asked for."""
        return self._task is not None and self._task.done()

    async def aclose(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_S)

    async def _hold(self) -> None:
        """Wait until no other process holds the channel, then connect until the lease ends."""
        try:
            stored = ChannelState.from_json(await self.lease.acquire())
            self.state = replace(stored, connected_since=None)
            running = asyncio.create_task(self._run(), name=f"connection of channel {self.adapter.name}")
            running.add_done_callback(log_task_exception)
            try:
                ended = await self.lease.keep(lambda: self.state.to_json(), self._requests.set)
                logger.info("channel %s ends: %s", self.adapter.name, ended)
            finally:
                running.cancel()
                await complete_before_cancel(self._disconnect(running))
        finally:
            await self.adapter.aclose()

    async def _disconnect(self, running: "asyncio.Task[None]") -> None:
        """Wait for the end of the connection, then free the lease: others connect afterwards only."""
        await asyncio.wait({running}, timeout=CLOSE_S)
        self._show_connected(False)
        self.state = replace(self.state, connected_since=None)
        await self.lease.release(self.state.to_json())

    async def _run(self) -> None:
        """Connect, and connect again after every failure."""
        delivery = ChatDelivery(self.harness, self.adapter, self._note_sent)
        try:
            await self._reconnect(delivery)
        finally:
            logger.info("channel %s has ended", self.adapter.name)
            await delivery.aclose()
            await self.adapter.aclose()

    async def _reconnect(self, delivery: ChatDelivery) -> None:
        self._retry_s = FIRST_RETRY_S
        while True:
            try:
                await self._connect(delivery)
            except Exception as problem:  # of any kind: nothing else would connect again
                if not isinstance(problem, ChannelError | StorageUnavailable):
                    logger.exception("channel %s has failed", self.adapter.name)
                self._note_error(problem)
                flooded_s = problem.retry_after_s if isinstance(problem, ChannelFlooded) else 0.0
                await asyncio.sleep(max(flooded_s, self._retry_s * uniform(0.5, 1.0)))
                self._retry_s = min(2 * self._retry_s, MAX_RETRY_S)

    async def _connect(self, delivery: ChatDelivery) -> None:
        """Log in and receive messages until the connection is lost."""
        account = await self.adapter.log_in()
        if not self._is_recovered:
            await self.harness.core.database.write(rows.forget_old_updates)
            await delivery.recover(account.account)
            self._is_recovered = True
        requests = asyncio.create_task(self._send_requested(delivery, account.account))
        try:
            async for _ in self._receive(account, delivery):
                self._retry_s = FIRST_RETRY_S
        finally:
            requests.cancel()

    async def _send_requested(self, delivery: ChatDelivery, account: str) -> None:
        """Send what the page asks for, as often as the lease is renewed."""
        while True:
            await self._requests.wait()
            self._requests.clear()
            await run_unless_unavailable(partial(delivery.begin_requested, account))

    async def _receive(self, account: BotAccount, delivery: ChatDelivery) -> AsyncIterator[None]:
        """Record updates as they arrive; each group is confirmed when all of it is recorded."""
        core = self.harness.core
        people = ChannelPeople(core.database, self.harness.resources.authenticator)
        inbox = ChatInbox(self.harness, self.adapter, people, delivery, self.allowed, self.strategy, self.app)
        async with aclosing(self.adapter.receive()) as groups:
            async for group in groups:
                self._note_connected(account)
                await self._record(inbox, group)
                yield

    async def _record(self, inbox: ChatInbox, group: Sequence[InboundUpdate]) -> None:
        if group:
            await complete_before_cancel(inbox.receive(group))
            self.state = replace(self.state, received=self.state.received + len(group))
            self._count("in", len(group))

    def _note_connected(self, account: BotAccount) -> None:
        if self.state.connected_since is None:
            logger.info("channel %s is connected as %s", self.adapter.name, account.name)
            self.state = replace(self.state, bot=account.name, connected_since=now(), last_error=None)
            self._show_connected(True)

    def _note_error(self, problem: Exception) -> None:
        logger.warning("channel %s is not connected: %s", self.adapter.name, problem)
        self.state = replace(self.state, connected_since=None)
        self._set_error(str(problem) or type(problem).__name__)
        self._show_connected(False)

    def _note_sent(self, error: str | None) -> None:
        if error is None:
            self.state = replace(self.state, sent=self.state.sent + 1)
            self._count("out", 1)
        else:
            self._set_error(error)

    def _set_error(self, error: str) -> None:
        text = self.harness.core.source.redact(error)
        self.state = replace(self.state, last_error=text, last_error_at=now())
        self.lease.wake.set()

    def _show_connected(self, is_connected: bool) -> None:
        self.harness.core.metrics.channel_connected.labels(self.adapter.name).set(is_connected)
        self.lease.wake.set()

    def _count(self, direction: str, count: int) -> None:
        self.harness.core.metrics.channel_messages.labels(self.adapter.name, direction).inc(count)


class ChannelHub:
    """Connections of this process: one for each chat app that is configured or connected on the page."""

    def __init__(self, harness: Harness, process: str, changed: asyncio.Event) -> None:
        """`changed` is set when connections may have to be opened, closed or replaced."""
        self.connections: dict[str, ChannelConnection] = {}
        self._harness = harness
        self._process = process
        self._changed = changed
        self._config = harness.core.source.settings(lambda loaded: loaded.config.channels)
        self._configured = self._config.current  # changes of the file take effect at the next start
        self._saved = SavedChannels(harness.core.database, harness.core.source, harness.core.saved_models.cipher)
        self._apps: dict[str, ChatAppConfig] = {}
        self._failed: dict[str, ChatAppConfig] = {}

    async def keep(self) -> None:
        """Open, close and replace connections for ever."""
        while True:
            await run_unless_unavailable(self._update)
            for connection in self.connections.values():
                connection.lease.wake.set()
            await wait_for_event(self._changed, POLL_S)
            self._changed.clear()

    async def aclose(self) -> None:
        """Disconnect from all."""
        await asyncio.gather(*(connection.aclose() for connection in self.connections.values()))

    async def _update(self) -> None:
        wanted = await self._saved.find_enabled(self._configured)
        for name in [*self.connections]:
            if self.connections[name].is_over or wanted.get(name) != self._apps.get(name):
                await self.connections.pop(name).aclose()
        for name in wanted.keys() - self.connections.keys():
            if self._failed.get(name) == wanted[name]:
                continue
            try:
                self._open(name, wanted[name])
            except DeerFlowError as problem:  # a package that is missing
                self._failed[name] = wanted[name]
                logger.error("channel %s cannot be opened: %s", name, problem)

    def _open(self, name: str, app: ChatAppConfig) -> None:
        (adapter,) = create_adapters(select_apps({name: app}))

        def find_app() -> ChatAppConfig | None:
            return self._config.current.find_enabled().get(name)

        def find_allowed() -> Sequence[int | str]:
            return found.allowed_users if (found := find_app()) else ()

        def get_strategy() -> MultitaskStrategy:
            return MultitaskStrategy(self._config.current.multitask_strategy)

        lease = create_lease(self._harness, name, self._process)
        connection = ChannelConnection(self._harness, adapter, find_allowed, get_strategy, lease, find_app)
        self.connections[name], self._apps[name] = connection, app
        connection.begin()


def create_lease(harness: Harness, name: str, process: str) -> ChannelLease:
    """Return the lease of a channel for a process, not acquired yet."""
    loaded, folder = harness.core.source.current, harness.core.home / LOCKS
    lease_s = min(MAX_LEASE_S, loaded.config.database.lease_seconds)
    return ChannelLease(harness.core.database, name, process, folder, is_database_shared(loaded), lease_s)


@asynccontextmanager
async def open_channels(harness: Harness, changed: asyncio.Event) -> AsyncIterator[ChannelHub]:
    """Connect to the chat apps of this server, and disconnect at the end."""
    async with AsyncExitStack() as stack:
        process = stack.enter_context(hold_process_lock(harness.core.home / LOCKS))
        hub = ChannelHub(harness, process, changed)
        stack.push_async_callback(hub.aclose)
        keeping = asyncio.create_task(hub.keep(), name="channels")
        keeping.add_done_callback(log_task_exception)
        try:
            yield hub
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})


def now() -> str:
    """Return the time in the format of states."""
    return datetime.now(UTC).isoformat(timespec="seconds")
