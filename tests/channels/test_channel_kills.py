"""A server with Telegram that is killed again and again: no message is lost, and none is answered twice."""

import asyncio
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from deerflow.testing import ScriptedServer
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.testing.scripted_server import ServerRequest
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
channels:
  telegram: {{bot_token: "{token}", base_url: "{telegram}", allowed_users: [1, 2, 3, 4, 5]}}
"""


def echo(request: ServerRequest) -> str:
    """Answer the latest message of the person; there are messages with the date as well."""
    return f"Answer to {re.findall(r'M[0-9]+[.]', str(request.messages))[-1]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "messages"), [(4, 40), pytest.param(50, 200, marks=[pytest.mark.nightly, pytest.mark.timeout(3000)])]
)
async def test_kills_lose_no_message_and_double_no_answer_unmarked(tmp_path: Path, kills: int, messages: int) -> None:
    random = Random(kills)
    async with ScriptedServer([echo], endless=True) as model, FakeTelegram() as telegram:
        config = tmp_path / "config.yaml"
        settings = {"base_url": model.base_url, "token": TOKEN, "telegram": telegram.base_url}
        config.write_text(CONFIG.format(**settings))
        for at in range(messages):
            telegram.write(f"M{at}.", sender=1 + at % len(PEOPLE))
        for _ in range(kills):
            with await asyncio.to_thread(lambda: serve(tmp_path, config=config)) as server:
                goal = len(telegram.calls) + random.randrange(4, 4 + 4 * messages // kills)
                async with asyncio.timeout(60):
                    await telegram.wait_until(
                        lambda goal=goal: len(telegram.calls) >= goal or is_complete(telegram, messages)
                    )
                server.kill()
        with await asyncio.to_thread(lambda: serve(tmp_path, config=config)):
            async with asyncio.timeout(240):
                await telegram.wait_until(lambda: is_complete(telegram, messages) and telegram.unconfirmed == 0)
        check(telegram, tmp_path, messages)


def is_complete(telegram: FakeTelegram, messages: int) -> bool:
    return len({answered(message.text) for message in telegram.messages.values()}) == messages


def answered(text: str) -> str:
    """Return which message a text answers."""
    return text[text.rindex("M") :]


def check(telegram: FakeTelegram, home: Path, messages: int) -> None:
    """Every message has one run and one answer; more only where the outcome was unknown, and then marked."""
    texts = [message.text for message in telegram.messages.values()]
    unmarked = Counter(answered(text) for text in texts if not text.startswith(REPEATED))
    assert len({answered(text) for text in texts}) == messages
    assert set(unmarked.values()) <= {1}
    with closing(sqlite3.connect(next(home.rglob("deerflow.db")))) as database:
        runs = database.execute("SELECT count(*) FROM runs").fetchone()[0]
        unknown = database.execute("SELECT count(*) FROM channel_outbox WHERE state = 'unknown'").fetchone()[0]
    assert runs == messages
    assert len(texts) - messages <= unknown
