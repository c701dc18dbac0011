"""Chat platforms, configuration and checks of tests that kill servers."""

import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from deerflow.testing.channels.feishu import APP_ID, APP_SECRET, FakeFeishu
from deerflow.testing.channels.slack import APP_TOKEN, BOT_TOKEN, FakeSlack
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.testing.scripted_server import ServerRequest

PEOPLE = range(1, 6)
REPEATED = "↻ Sent again"
CONFIG = """
memory: {{enabled: false}}
title: {{enabled: false}}
suggestions: {{enabled: false}}
summarization: {{enabled: false}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
channels:
  {channel}
"""


@dataclass(frozen=True)
class KilledPlatform:
    """A fake platform, and how the test uses it."""

    fake: FakeTelegram | FakeSlack | FakeFeishu
    channel: str
    """Settings of the channel."""
    write: Callable[[int], Awaitable[object]]
    """Sends a message with a number to the bot."""
    confirmed: Callable[[], bool]
    requests: int = 1
    """How many requests of the server are made between two kills, in multiples of those of Telegram.

    The run engine gives a run up that is being executed when three processes die.
    """

    @property
    def is_settled(self) -> bool:
        """Return whether no message is being written."""
        return not any(message.buttons for message in self.fake.messages.values())

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.fake.messages.values()]


@asynccontextmanager
async def open_telegram() -> AsyncIterator[KilledPlatform]:
    async with FakeTelegram() as fake:
        channel = f'telegram: {{bot_token: "{TOKEN}", base_url: "{fake.base_url}", allowed_users: [1, 2, 3, 4, 5]}}'

        async def write(at: int) -> None:
            fake.write(f"M{at}.", sender=1 + at % len(PEOPLE))

        yield KilledPlatform(fake, channel, write, lambda: fake.unconfirmed == 0)


@asynccontextmanager
async def open_slack() -> AsyncIterator[KilledPlatform]:
    """Half of the messages are in threads of a channel, where answers are streamed."""
    async with FakeSlack() as fake:
        tokens = f'bot_token: "{BOT_TOKEN}", app_token: "{APP_TOKEN}", base_url: "{fake.base_url}"'
        people = ", ".join(f"U{at}" for at in PEOPLE)

        async def write(at: int) -> None:
            person = 1 + at % len(PEOPLE)
            chat = f"D{person}" if at % 2 else "C1"
            await fake.write(f"<@UBOT> M{at}.", sender=f"U{person}", chat=chat)

        channel = f"slack: {{{tokens}, allowed_users: [{people}]}}"
        yield KilledPlatform(fake, channel, write, lambda: not fake.unacknowledged)


@asynccontextmanager
async def open_feishu() -> AsyncIterator[KilledPlatform]:
    async with FakeFeishu() as fake:
        app = f'app_id: "{APP_ID}", app_secret: "{APP_SECRET}", domain: "{fake.base_url}"'

        async def write(at: int) -> None:
            fake.write(f"M{at}.", sender=1 + at % len(PEOPLE))

        channel = f"feishu: {{{app}, allowed_users: [1, 2, 3, 4, 5]}}"
        yield KilledPlatform(fake, channel, write, lambda: fake.unconfirmed == 0, requests=3)


PLATFORMS = {"telegram": open_telegram, "slack": open_slack, "feishu": open_feishu}


def echo(request: ServerRequest) -> str:
    """Answer the latest message of the person; there are messages with the date as well."""
    return f"Answer to {re.findall(r'M[0-9]+[.]', str(request.messages))[-1]}"


def is_complete(platform: KilledPlatform, messages: int) -> bool:
    return len({answered(text) for text in platform.texts if "M" in text}) == messages and platform.is_settled


def answered(text: str) -> str:
    """Return which message a text answers."""
    return text[text.rindex("M") :]


def check(platform: KilledPlatform, home: Path, messages: int) -> None:
    """Every message has one run and one answer; more only where the outcome was unknown, and then marked."""
    texts = platform.texts
    unmarked = Counter(answered(text) for text in texts if not text.startswith(REPEATED))
    assert len({answered(text) for text in texts}) == messages
    assert set(unmarked.values()) <= {1}
    with closing(sqlite3.connect(next(home.rglob("deerflow.db")))) as database:
        runs = database.execute("SELECT count(*) FROM runs").fetchone()[0]
        unknown = database.execute("SELECT count(*) FROM channel_outbox WHERE state = 'unknown'").fetchone()[0]
    assert runs == messages
    assert len(texts) - messages <= unknown
    if isinstance(platform.fake, FakeFeishu):  # which knows keys: nothing is there twice, and no card stays open
        cards = platform.fake.cards.values()
        assert len(texts) == messages and not any(card.is_streaming and card.message for card in cards)
