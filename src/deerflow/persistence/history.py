"""What was said in a thread, found in the events of its runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection

from deerflow.domain.history import Excerpt
from deerflow.domain.reading import ADDRESSES_MARK, UNTRUSTED_MARK, mentions
from deerflow.persistence.events import latest_changes

EXCERPT_CHARS = 500
MOST_BYTES = 256 * 2**20
"""How much of a journal one search reads at most."""
ECHO = "search_history"
"""The tool whose results repeat what was found before."""


def find_messages(connection: Connection, thread_id: str, words: Sequence[str], limit: int) -> Sequence[Excerpt]:
    """At most `limit` messages of the thread that contain all `words`, each as it was last said."""
    found: dict[str, Excerpt] = {}
    marks = [word.encode() for word in words if _is_the_same_in_json(word)]
    read = 0
    for data, said_at in latest_changes(connection, thread_id):
        read += len(data)
        if len(found) >= limit or read > MOST_BYTES:
            break
        folded = data.lower()
        if all(mark in folded for mark in marks):  # parsing is dear, and most events say something else
            for id_, excerpt in _matches(data, said_at, words):
                found.setdefault(id_, excerpt)
    return list(found.values())[:limit]


def mentions_address(connection: Connection, thread_id: str, address: str) -> bool:
    """Whether an address stands in what people wrote in the thread, or in what strangers are known to have said."""
    host = address.partition("/")[0].partition("?")[0].partition("#")[0].encode()
    read = 0
    for data, _ in latest_changes(connection, thread_id):
        read += len(data)
        if read > MOST_BYTES:
            break
        if host in data.lower() and any(_may_be_named(message, address) for message in orjson.loads(data)["messages"]):
            return True
    return False


def _may_be_named(message: Mapping[str, Any], address: str) -> bool:
    extras = message["additional_kwargs"]
    if address in extras.get(ADDRESSES_MARK, ()):
        return True
    is_persons = message["type"] == "human" and not extras.get("hide_from_ui")
    return (is_persons or bool(extras.get(UNTRUSTED_MARK))) and mentions(_text(message), address)


def _is_the_same_in_json(word: str) -> bool:
    """Whether `word` looks in JSON as it does in a text, once ASCII letters are small."""
    return (word.isascii() or word.upper() == word) and word.isprintable() and not {'"', "\\"} & set(word)


def _matches(data: bytes, said_at: datetime, words: Sequence[str]) -> Iterator[tuple[str, Excerpt]]:
    for message in reversed(orjson.loads(data)["messages"]):
        text = _text(message)
        folded = text.lower()
        if not _is_echo(message) and all(word in folded for word in words):
            place = min(folded.index(word) for word in words)
            yield message["id"], Excerpt(message["type"], _around(text, place), said_at)


def _is_echo(message: Mapping[str, Any]) -> bool:
    return message.get("name") == ECHO or bool(message["additional_kwargs"].get("hide_from_ui"))


def _text(message: Mapping[str, Any]) -> str:
    """What a message says, and what it asks tools for."""
    content = message["content"]
    parts = [content] if isinstance(content, str) else _block_texts(content)
    calls = (f"{call['name']}({orjson.dumps(call['args']).decode()})" for call in message.get("tool_calls") or ())
    return "\n".join([*filter(None, parts), *(call for call in calls if not call.startswith(ECHO))])


def _block_texts(blocks: Iterable[Any]) -> Iterator[str]:
    for block in blocks:
        text = block.get("text") if isinstance(block, Mapping) else block
        if isinstance(text, str):
            yield text


def _around(text: str, place: int) -> str:
    """The part of `text` around a place in it."""
    if len(text) <= EXCERPT_CHARS:
        return text
    start = max(0, min(place - EXCERPT_CHARS // 4, len(text) - EXCERPT_CHARS))
    part = text[start : start + EXCERPT_CHARS - 2]
    return f"{'…' if start else ''}{part}{'…' if start + len(part) < len(text) else ''}"
