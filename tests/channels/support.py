"""A harness connected to a fake Telegram."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.channels.adapter import ChannelLimits
from deerflow.channels.lease import LOCKS
from deerflow.channels.people import create_code
from deerflow.channels.service import ChannelConnection, create_lease
from deerflow.channels.telegram.adapter import TelegramAdapter
from deerflow.channels.telegram.api import TelegramApi
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import MultitaskStrategy
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine.liveness import hold_process_lock
from deerflow.testing import ScriptedModel
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.testing.scripted_model import ObedientModel

LIMIT_S = 60
OWNER = 7
OFF: Mapping[str, Any] = {"suggestions": {"enabled": False}, "memory": {"enabled": False}, "title": {"enabled": False}}
FAST = ChannelLimits(private_interval_s=0.0, group_interval_s=0.0)


@dataclass
class ConnectedServer:
    """A harness whose bot is connected to a fake."""

    telegram: FakeTelegram
    harness: Harness
    connection: ChannelConnection

    async def create_code(self, who: Principal = LOCAL_USER) -> str:
        return (await create_code(self.harness.core.database, who)).code

    async def wait(self, is_true: Callable[[], object]) -> None:
        """Wait until something is true, as long as the server is open."""
        await self.telegram.wait_until(is_true)

    async def ask(self, text: str, chat: int = OWNER, **message: Any) -> list[str]:
        """Send a message and return the texts of the chat when there is one more."""
        before = len(self.telegram.in_chat(chat))
        self.telegram.write(text, chat=chat, **message)
        await self.wait(lambda: len(self.telegram.in_chat(chat)) > before)
        return self.texts(chat)

    def texts(self, chat: int = OWNER) -> list[str]:
        return [message.text for message in self.telegram.in_chat(chat)]


@asynccontextmanager
async def connect(
    home: Path,
    telegram: FakeTelegram,
    model: ScriptedModel | ObedientModel,
    *,
    allowed: tuple[int | str, ...] = (OWNER,),
    limits: ChannelLimits = FAST,
    strategy: MultitaskStrategy = MultitaskStrategy.ENQUEUE,
    token: str = TOKEN,
    limit_s: float = LIMIT_S,
    **settings: Any,
) -> AsyncIterator[ConnectedServer]:
    """Yield a harness that is connected to a running fake."""
    source = open_source(directory=home, environment={}, overrides={**OFF, **settings})
    async with asyncio.timeout(limit_s), open_harness(source, model) as harness:
        adapter = TelegramAdapter(TelegramApi(token, telegram.base_url), limits)
        with hold_process_lock(harness.core.home / LOCKS) as process:
            lease = create_lease(harness, adapter.name, process)
            connection = ChannelConnection(harness, adapter, lambda: allowed, lambda: strategy, lease)
            connection.begin()
            try:
                yield ConnectedServer(telegram, harness, connection)
            finally:
                await connection.aclose()


__all__ = ["FAST", "LIMIT_S", "LOCAL_USER", "OWNER", "ConnectedServer", "connect"]
