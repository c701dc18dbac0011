"""Connections to chat apps: one task per channel, which reconnects for ever, and its state."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import uniform
from typing import IO

from deerflow.channels import queries as rows
from deerflow.channels.adapter import BotAccount, ChannelAdapter, ChannelError, ChannelFlooded, InboundUpdate
from deerflow.channels.apps import create_adapters
from deerflow.channels.delivery import ChatDelivery
from deerflow.channels.inbox import ChatInbox
from deerflow.channels.people import ChannelPeople
from deerflow.config.loader.files import acquire_lock
from deerflow.config.sections.channels import ChatAppConfig
from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.runs import MultitaskStrategy
from deerflow.harness import Harness
from deerflow.runtime.background import complete_before_cancel, wait_for_event

logger = logging.getLogger(__name__)

FIRST_RETRY_S, MAX_RETRY_S = 1.0, 60.0
LOCK_RETRY_S = 2.0
CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class ChannelState:
    """State of a channel, as people see it."""

    name: str
    bot: str = ""
    """Name of the bot, once it has logged in."""
    connected_since: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    received: int = 0
    sent: int = 0


@dataclass(slots=True)
class ChannelConnection:
    """Connection to one chat app. One process holds it; others take over when it ends."""

    harness: Harness
    adapter: ChannelAdapter
    allowed: Callable[[], Sequence[int | str]]
    strategy: Callable[[], MultitaskStrategy]
    lock_file: Path
    app: Callable[[], ChatAppConfig | None] = lambda: None
    """Returns the settings of the chat app."""
    state: ChannelState = field(init=False)
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.state = ChannelState(self.adapter.name)

    def begin(self) -> None:
        """Connect in the background."""
        self._task = asyncio.create_task(self._hold(), name=f"channel {self.adapter.name}")

    async def aclose(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_S)

    async def _hold(self) -> None:
        """Wait until no other process of this installation holds the channel, then connect."""
        self.lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.lock_file.open("ab") as file:
            while not try_lock(file):
                await wait_for_event(asyncio.Event(), LOCK_RETRY_S)
            await self._run()

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
        retry_s, is_recovered = FIRST_RETRY_S, False
        while True:
            try:
                account = await self.adapter.log_in()
                if not is_recovered:
                    await self.harness.core.database.write(rows.forget_old_updates)
                    await delivery.recover(account.account)
                    is_recovered = True
                async for _ in self._receive(account, delivery):
                    retry_s = FIRST_RETRY_S
            except Exception as problem:  # of any kind: nothing else would connect again
                if not isinstance(problem, ChannelError | StorageUnavailable):
                    logger.exception("channel %s has failed", self.adapter.name)
                self._note_error(problem)
                flooded_s = problem.retry_after_s if isinstance(problem, ChannelFlooded) else 0.0
                await asyncio.sleep(max(flooded_s, retry_s * uniform(0.5, 1.0)))
                retry_s = min(2 * retry_s, MAX_RETRY_S)

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

    def _note_connected(self, account: BotAccount) -> None:
        if self.state.connected_since is None:
            logger.info("channel %s is connected as %s", self.adapter.name, account.name)
            self.state = replace(self.state, bot=account.name, connected_since=datetime.now(UTC), last_error=None)

    def _note_error(self, problem: Exception) -> None:
        logger.warning("channel %s is not connected: %s", self.adapter.name, problem)
        self.state = replace(self.state, connected_since=None, last_error=str(problem), last_error_at=datetime.now(UTC))

    def _note_sent(self, error: str | None) -> None:
        if error is None:
            self.state = replace(self.state, sent=self.state.sent + 1)
        else:
            self.state = replace(self.state, last_error=error, last_error_at=datetime.now(UTC))


@asynccontextmanager
async def open_channels(harness: Harness) -> AsyncIterator[Sequence[ChannelConnection]]:
    """Connect to the configured chat apps, and disconnect at the end."""
    config = harness.core.source.settings(lambda loaded: loaded.config.channels)

    def connect(adapter: ChannelAdapter) -> ChannelConnection:
        def find_app() -> ChatAppConfig | None:
            return config.current.find_enabled().get(adapter.name)

        def find_allowed() -> Sequence[int | str]:
            return app.allowed_users if (app := find_app()) else ()

        lock_file = harness.core.home / "channels" / f"{adapter.name}.lock"
        return ChannelConnection(
            harness,
            adapter,
            find_allowed,
            lambda: MultitaskStrategy(config.current.multitask_strategy),
            lock_file,
            find_app,
        )

    connections = [connect(adapter) for adapter in create_adapters(config.current)]
    for connection in connections:
        connection.begin()
    try:
        yield connections
    finally:
        await asyncio.gather(*(connection.aclose() for connection in connections))


def try_lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed. Return False if another process has locked it."""
    with suppress(BlockingIOError):
        acquire_lock(file, wait=False)
        return True
    return False
