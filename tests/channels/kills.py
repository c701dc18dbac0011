"""Configuration and checks of tests that kill servers with a chat app."""

import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from deerflow.testing.channels.telegram import FakeTelegram
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
  telegram: {{bot_token: "{token}", base_url: "{telegram}", allowed_users: [1, 2, 3, 4, 5]}}
"""


def echo(request: ServerRequest) -> str:
    """Answer the latest message of the person; there are messages with the date as well."""
    return f"Answer to {re.findall(r'M[0-9]+[.]', str(request.messages))[-1]}"


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
