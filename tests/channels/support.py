"""A harness connected to a fake chat app."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from deerflow.channels.adapter import ChannelAdapter, ChannelLimits
from deerflow.channels.feishu.adapter import FeishuAdapter
from deerflow.channels.feishu.api import FeishuApi
from deerflow.channels.feishu.cards import LIMITS as FEISHU_LIMITS
from deerflow.channels.people import create_code
from deerflow.channels.service import ChannelConnection
from deerflow.channels.telegram.adapter import TelegramAdapter
from deerflow.channels.telegram.api import TelegramApi
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import MultitaskStrategy
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel
from deerflow.testing.channels.feishu import APP_ID, APP_SECRET, FakeFeishu
from deerflow.testing.channels.server import ShownMessage
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.testing.scripted_model import ObedientModel

LIMIT_S = 60
OWNER = 7
OFF: Mapping[str, Any] = {"suggestions": {"enabled": False}, "memory": {"enabled": False}, "title": {"enabled": False}}
FAST = ChannelLimits(private_interval_s=0.0, group_interval_s=0.0)
FakeChatApp: TypeAlias = FakeTelegram | FakeFeishu
CreateFake: TypeAlias = Callable[[], FakeChatApp]
CHAT_APPS: Sequence[CreateFake] = (FakeTelegram, FakeFeishu)
each_app = pytest.mark.parametrize("create_fake", CHAT_APPS)


@dataclass
class ConnectedServer:
    """A harness whose bot is connected to a fake."""

    fake: FakeChatApp
    harness: Harness
    connection: ChannelConnection

    async def create_code(self, who: Principal = LOCAL_USER) -> str:
        return (await create_code(self.harness.core.database, who)).code

    async def wait(self, is_true: Callable[[], object]) -> None:
        """Wait until something is true, as long as the server is open."""
        await self.fake.wait_until(is_true)

    async def ask(self, text: str, chat: int = OWNER, **message: Any) -> list[str]:
        """Send a message and return the texts of the chat when there is one more."""
        before = len(self.texts(chat))
        self.fake.write(text, chat=chat, **message)
        await self.wait(lambda: len(self.texts(chat)) > before)
        return self.texts(chat)

    def texts(self, chat: int = OWNER) -> list[str]:
        """Return the texts of a chat that are complete: others can be stopped."""
        return [message.text for message in self.fake.in_chat(chat) if not is_unfinished(message)]


def is_unfinished(message: ShownMessage) -> bool:
    """Return whether a message is still being written."""
    return any(str(button["callback_data"]).startswith("stop:") for button in message.buttons)


@asynccontextmanager
async def connect(
    home: Path,
    fake: FakeChatApp,
    model: ScriptedModel | ObedientModel,
    *,
    allowed: tuple[int | str, ...] = (OWNER,),
    limits: ChannelLimits | None = None,
    strategy: MultitaskStrategy = MultitaskStrategy.ENQUEUE,
    token: str = TOKEN,
    limit_s: float = LIMIT_S,
    **settings: Any,
) -> AsyncIterator[ConnectedServer]:
    """Yield a harness that is connected to a running fake."""
    source = open_source(directory=home, environment={}, overrides={**OFF, **settings})
    async with asyncio.timeout(limit_s), open_harness(source, model) as harness:
        adapter = create_adapter(fake, limits, token)
        lock = harness.core.home / "channels" / f"{adapter.name}.lock"
        connection = ChannelConnection(harness, adapter, lambda: allowed, lambda: strategy, lock)
        connection.begin()
        try:
            yield ConnectedServer(fake, harness, connection)
        finally:
            await connection.aclose()


def create_adapter(fake: FakeChatApp, limits: ChannelLimits | None = None, token: str = TOKEN) -> ChannelAdapter:
    """Return an adapter of a fake."""
    if isinstance(fake, FakeTelegram):
        return TelegramAdapter(TelegramApi(token, fake.base_url), limits or FAST)
    fast = replace(FEISHU_LIMITS, private_interval_s=0.0, group_interval_s=0.0)
    return FeishuAdapter(FeishuApi(APP_ID, APP_SECRET, fake.base_url), "en", limits or fast)


__all__ = [
    "FAST",
    "LIMIT_S",
    "LOCAL_USER",
    "OWNER",
    "ConnectedServer",
    "CreateFake",
    "FakeChatApp",
    "connect",
    "each_app",
    "is_unfinished",
]
