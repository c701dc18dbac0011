"""A server with a chat app that is killed again and again: no message is lost, and none is answered twice."""

import asyncio
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from deerflow.testing import ScriptedServer
from deerflow.testing.channels.feishu import APP_ID, APP_SECRET, FakeFeishu
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.testing.scripted_server import ServerRequest
from tests.channels.support import CreateFake, FakeChatApp, each_app, is_unfinished
from tests.e2e.server_process import serve

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
channels: {channels}
"""


def echo(request: ServerRequest) -> str:
    """Answer the latest message of the person; there are messages with the date as well."""
    return f"Answer to {re.findall(r'M[0-9]+[.]', str(request.messages))[-1]}"


def describe(fake: FakeChatApp) -> Mapping[str, object]:
    """Return the settings of a chat app."""
    people = {"allowed_users": [*PEOPLE]}
    if isinstance(fake, FakeTelegram):
        return {"telegram": {"bot_token": TOKEN, "base_url": fake.base_url, **people}}
    return {"feishu": {"app_id": APP_ID, "app_secret": APP_SECRET, "domain": fake.base_url, **people}}


@each_app
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "messages"), [(4, 40), pytest.param(50, 200, marks=[pytest.mark.nightly, pytest.mark.timeout(3000)])]
)
async def test_kills_lose_no_message_and_double_no_answer_unmarked(
    tmp_path: Path, create_fake: CreateFake, kills: int, messages: int
) -> None:
    random = Random(kills)
    async with ScriptedServer([echo], endless=True) as model, create_fake() as fake:
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url, channels=json.dumps(describe(fake))))
        pace = 3 if isinstance(fake, FakeFeishu) else 1  # requests for an answer; runs are given up after three deaths
        for at in range(messages):
            fake.write(f"M{at}.", sender=1 + at % len(PEOPLE))
        for _ in range(kills):
            with await asyncio.to_thread(lambda: serve(tmp_path, config=config)) as server:
                goal = len(fake.calls) + pace * random.randrange(4, 4 + 4 * messages // kills)
                async with asyncio.timeout(60):
                    await fake.wait_until(lambda goal=goal: len(fake.calls) >= goal or is_complete(fake, messages))
                server.kill()
        with await asyncio.to_thread(lambda: serve(tmp_path, config=config)):
            async with asyncio.timeout(240):
                await fake.wait_until(lambda: is_complete(fake, messages) and fake.unconfirmed == 0)
        check(fake, tmp_path, messages)


def is_complete(fake: FakeChatApp, messages: int) -> bool:
    """Return whether all messages are answered, and nothing is being written."""
    shown = fake.messages.values()
    if any(is_unfinished(message) for message in shown):
        return False
    return len({answered(message.text) for message in shown}) == messages


def answered(text: str) -> str:
    """Return which message a text answers."""
    return text[text.rindex("M") :]


def check(fake: FakeChatApp, home: Path, messages: int) -> None:
    """Every message has one run and one answer; more only where the outcome was unknown, and then marked."""
    texts = [message.text for message in fake.messages.values()]
    unmarked = Counter(answered(text) for text in texts if not text.startswith(REPEATED))
    assert len({answered(text) for text in texts}) == messages
    assert set(unmarked.values()) <= {1}
    with closing(sqlite3.connect(next(home.rglob("deerflow.db")))) as database:
        runs = database.execute("SELECT count(*) FROM runs").fetchone()[0]
        unknown = database.execute("SELECT count(*) FROM channel_outbox WHERE state = 'unknown'").fetchone()[0]
    assert runs == messages
    assert len(texts) - messages <= unknown
    if isinstance(fake, FakeFeishu):
        assert len(texts) == messages and not any(card.is_streaming and card.message for card in fake.cards.values())
