"""Cards of Feishu: texts with buttons, and texts that are being written."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import orjson

from deerflow.channels.adapter import ChannelLimits, ChatAddress, ChatButton
from deerflow.channels.feishu.api import FeishuApi, FeishuRefused
from deerflow.channels.splitting import FENCE, count_units, split_markdown

V = TypeVar("V")
CARDS = "/open-apis/cardkit/v1/cards"
TEXT_ELEMENT = "text"
MAX_UNITS = 8000
"""Length of the longest text of a card in UTF-16 code units: with three bytes each below the limit of 30 KB."""
TABLE = re.compile(r"^(?=[^\n]*-)[ |:-]+$", re.MULTILINE)
"""Line below the head of a table. It takes a time in proportion to a text, also to one of a hundred thousand dashes."""
MAX_TABLES = 4
"""Number of tables in a card. Feishu refuses a card with more than five."""
STREAM_CLOSED = frozenset({200850, 300309})
"""Streams end ten minutes after they were opened; they can be opened again."""
WRONG_SEQUENCE = 300317
EPOCH_S = 1_767_225_600
"""2026-01-01. Quarters of seconds since then fit into the 32 bits of a sequence for seventeen years."""
MAX_KNOWN = 1000
MENTION = re.compile(r"<(/?at\b)", re.IGNORECASE)
LIMITS = ChannelLimits(
    private_interval_s=0.25,
    group_interval_s=0.25,
    idempotent_s=50 * 60.0,  # an hour, as Feishu says, less the time of requests and different clocks
    max_download_bytes=100 * 2**20,
    max_upload_bytes=30 * 2**20,
)


def split_text(text: str) -> Sequence[str]:
    """Return Markdown as texts of one card each."""
    return split_markdown(text, MAX_UNITS, measure)


def measure(text: str) -> int:
    """Return the length of a text; more than a card takes if it has too many tables."""
    tables = sum("|" in line for line in TABLE.findall(text)) if text.count("|") else 0
    return count_units(text.strip()) + (MAX_UNITS if tables > MAX_TABLES else 0)


def build_card(
    text: str, buttons: Sequence[ChatButton], address: ChatAddress, *, is_streaming: bool = False
) -> Mapping[str, object]:
    """Return a card of schema 2.0. Buttons carry the topic of their chat, which a pressed button does not say."""
    config: dict[str, object] = {"update_multi": True, "streaming_mode": is_streaming}
    summary = " ".join(line for line in text.split("\n") if line.strip() and not FENCE.fullmatch(line))
    if not is_streaming:
        config["summary"] = {"content": summary[:80]}
    elements: list[Mapping[str, object]] = [
        {"tag": "markdown", "content": disarm(text) or "…", "element_id": TEXT_ELEMENT},
        *(build_button(button, address) for button in buttons),
    ]
    return {"schema": "2.0", "config": config, "body": {"elements": elements}}


def build_button(button: ChatButton, address: ChatAddress) -> Mapping[str, object]:
    """Return a button that sends its data."""
    value = {"data": button.data, "topic": address.topic, "is_private": address.is_private}
    label = {"tag": "plain_text", "content": button.label}
    return {"tag": "button", "text": label, "behaviors": [{"type": "callback", "value": value}]}


def fit(text: str) -> str:
    """Return a text that is being written, or its end if it is too long for one card."""
    return text if measure(text) <= MAX_UNITS else split_text(text[-2 * MAX_UNITS :])[-1]


def disarm(text: str) -> str:
    """Return a text whose tags mention no one: a model may repeat what others wrote."""
    return MENTION.sub("<\u200b\\1", text)


@dataclass(slots=True)
class StreamedCard:
    """Card that is being written, and the number of its latest change. Feishu wants higher ones each time."""

    card_id: str
    sequence: int = 0

    def next_sequence(self) -> int:
        """Return the number of the next change."""
        self.sequence += 1
        return self.sequence


class CardStreams:
    """Cards that are being written. Those of an ended process are found by their message."""

    def __init__(self, api: FeishuApi, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._clock = clock
        self._cards: OrderedDict[str, StreamedCard] = OrderedDict()
        self._created: OrderedDict[str, str] = OrderedDict()

    async def create(self, text: str, stop: ChatButton, address: ChatAddress) -> str:
        """Create a card that is being written, and return its id."""
        card = build_card(fit(text), (stop,), address, is_streaming=True)
        body = {"type": "card_json", "data": orjson.dumps(card).decode()}
        return str((await self._api.call("POST", CARDS, body))["card_id"])

    def note(self, message_id: str, card_id: str) -> None:
        """Remember which card was created for a message. One that was sent again may show an earlier card."""
        remember(self._created, message_id, card_id)

    async def show(self, message_id: str, text: str) -> None:
        """Show more of a text."""
        card = await self._find(message_id)
        path = f"{CARDS}/{card.card_id}/elements/{TEXT_ELEMENT}/content"
        try:
            await self._change("PUT", path, card, {"content": disarm(fit(text))})
        except FeishuRefused as refused:
            if refused.code not in STREAM_CLOSED:
                raise
            settings = orjson.dumps({"config": {"streaming_mode": True}}).decode()
            await self._change("PATCH", f"{CARDS}/{card.card_id}/settings", card, {"settings": settings})
            await self._change("PUT", path, card, {"content": disarm(fit(text))})

    async def close(self, message_id: str, text: str, buttons: Sequence[ChatButton], address: ChatAddress) -> None:
        """Show the whole card as it stays, and end its stream."""
        card = await self._find(message_id)
        data = orjson.dumps(build_card(text, buttons, address)).decode()
        await self._change("PUT", f"{CARDS}/{card.card_id}", card, {"card": {"type": "card_json", "data": data}})
        self._created.pop(message_id, None)

    async def _change(self, method: str, path: str, card: StreamedCard, body: Mapping[str, object]) -> None:
        try:
            await self._api.call(method, path, {**body, "sequence": card.next_sequence()})
        except FeishuRefused as refused:
            if refused.code != WRONG_SEQUENCE:
                raise
            card.sequence = max(card.sequence, self._count_quarters())  # of a process before this one
            await self._api.call(method, path, {**body, "sequence": card.next_sequence()})

    async def _find(self, message_id: str) -> StreamedCard:
        """Return the card of a message, or raise `ChannelRefused` if it has none."""
        known = self._cards.get(message_id)
        if known is not None:
            return known
        created = self._created.get(message_id, "")
        try:
            found = await self._api.call("POST", f"{CARDS}/id_convert", {"message_id": message_id})
            card_id = str(found["card_id"])
        except FeishuRefused:
            if not created:
                raise
            card_id = created
        card = StreamedCard(card_id, 0 if card_id == created else self._count_quarters())
        remember(self._cards, message_id, card)
        return card

    def _count_quarters(self) -> int:
        return int((self._clock() - EPOCH_S) * 4)


def remember(known: OrderedDict[str, V], key: str, value: V) -> None:
    """Add an entry, and forget the oldest of too many."""
    known[key] = value
    if len(known) > MAX_KNOWN:
        known.popitem(last=False)
