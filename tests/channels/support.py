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
from deerflow.channels.lease import LOCKS
from deerflow.channels.people import create_code
from deerflow.channels.service import ChannelConnection, create_lease
from deerflow.channels.slack.adapter import SlackAdapter
from deerflow.channels.slack.api import SlackApi
from deerflow.channels.telegram.adapter import TelegramAdapter
from deerflow.channels.telegram.api import TelegramApi
from deerflow.config.sections.channels import ChatAppConfig
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import MultitaskStrategy
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine.liveness import hold_process_lock
from deerflow.testing import ScriptedModel
from deerflow.testing.channels.feishu import APP_ID, APP_SECRET, FakeFeishu
from deerflow.testing.channels.server import ShownMessage
from deerflow.testing.channels.slack import APP_TOKEN, BOT_TOKEN, DIRECT, FakeSlack
from deerflow.testing.channels.slack import OWNER as SLACK_OWNER
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


@dataclass
class SlackServer:
    """A harness whose bot is connected to a fake Slack."""

    slack: FakeSlack
    harness: Harness
    connection: ChannelConnection

    async def create_code(self, who: Principal = LOCAL_USER) -> str:
        return (await create_code(self.harness.core.database, who)).code

    async def wait(self, is_true: Callable[[], object]) -> None:
        """Wait until something is true, as long as the server is open."""
        await self.slack.wait_until(is_true)

    async def ask(self, text: str, chat: str = DIRECT, **message: Any) -> list[str]:
        """Send a message and return the texts of the chat when there is one more, complete."""
        before = len(self.slack.in_chat(chat))
        await self.slack.write(text, chat=chat, **message)
        await self.wait(lambda: len(self.slack.in_chat(chat)) > before and self.is_complete(chat))
        return self.texts(chat)

    def is_complete(self, chat: str = DIRECT) -> bool:
        """Return whether no answer is being written."""
        return not any(message.is_streaming or message.buttons for message in self.slack.in_chat(chat))

    def texts(self, chat: str = DIRECT) -> list[str]:
        return [message.text for message in self.slack.in_chat(chat)]


@asynccontextmanager
async def connect(
    home: Path,
    fake: FakeChatApp,
    model: ScriptedModel | ObedientModel,
    *,
    limits: ChannelLimits | None = None,
    token: str = TOKEN,
    **options: Any,
) -> AsyncIterator[ConnectedServer]:
    """Yield a harness that is connected to a running fake."""
    async with open_connection(home, create_adapter(fake, limits, token), model, **options) as (harness, connection):
        yield ConnectedServer(fake, harness, connection)


@asynccontextmanager
async def connect_slack(
    home: Path, slack: FakeSlack, model: ScriptedModel | ObedientModel, *, token: str = BOT_TOKEN, **options: Any
) -> AsyncIterator[SlackServer]:
    """Yield a harness that is connected to a running fake of Slack."""
    adapter = SlackAdapter(SlackApi(token, APP_TOKEN, slack.base_url), FAST)
    options = {"allowed": (SLACK_OWNER,), **options}
    async with open_connection(home, adapter, model, **options) as (harness, connection):
        yield SlackServer(slack, harness, connection)


@asynccontextmanager
async def open_connection(
    home: Path,
    adapter: ChannelAdapter,
    model: ScriptedModel | ObedientModel,
    *,
    allowed: tuple[int | str, ...] = (OWNER,),
    strategy: MultitaskStrategy = MultitaskStrategy.ENQUEUE,
    app: Callable[[], ChatAppConfig | None] = lambda: None,
    limit_s: float = LIMIT_S,
    **settings: Any,
) -> AsyncIterator[tuple[Harness, ChannelConnection]]:
    """Yield a harness and its connection through an adapter."""
    source = open_source(directory=home, environment={}, overrides={**OFF, **settings})
    async with asyncio.timeout(limit_s), open_harness(source, model) as harness:
        with hold_process_lock(harness.core.home / LOCKS) as process:
            lease = create_lease(harness, adapter.name, process)
            connection = ChannelConnection(harness, adapter, lambda: allowed, lambda: strategy, lease, app)
            connection.begin()
            try:
                yield harness, connection
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
    "SlackServer",
    "connect",
    "connect_slack",
    "each_app",
    "is_unfinished",
]
