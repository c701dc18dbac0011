"""Tools are trusted as they were first seen; whoever changes one has to show it to an admin."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

from deerflow.mcp.pins import PinVerdict, ToolDiff
from deerflow.mcp.status import ToolCard
from deerflow.persistence.database import Database
from deerflow.persistence.mcp_pins import (
    Pin,
    ToolVersion,
    accept_offers,
    delete_pins,
    drop_offers,
    note_offers,
    pin_server,
    read_pins,
)
from deerflow.persistence.tables import to_key

SHOWN_CHARS = 50_000
"""So much of each text is kept to be shown; the hash is of all of it."""


class ToolPins:
    """Remembers in the database what tools were like when they were accepted."""

    def __init__(self, database: Database, now: Callable[[], datetime] | None = None) -> None:
        self._database = database
        self._now = now or (lambda: datetime.now(UTC))

    async def check(self, server: str, tools: Sequence[ToolCard]) -> PinVerdict:
        """Judge what a server offers now; the first time, all of it is accepted and remembered."""
        cards = {card.name: card for card in tools if card.name}
        offered = {name: version_of(card) for name, card in cards.items()}
        pins = await self._database.read(partial(read_pins, server=server))
        if pins is None:
            await self._database.write(partial(pin_server, server=server, tools=offered, now=self._now()))
            # Read again: another process may have met the server a moment ago, and met another one.
            pins = await self._database.read(partial(read_pins, server=server)) or {}
        pins = {name: pin for name in cards if (pin := pins.get(to_key(name))) is not None}
        differing = {name: seen for name, seen in offered.items() if not is_accepted(pins.get(name), seen)}
        await self._remember(server, pins, offered, differing)
        diffs = [ToolDiff(name, card_of(pins.get(name)), cards[name]) for name in differing]
        return PinVerdict(tuple(name for name in cards if name not in differing), tuple(diffs))

    async def list(self, server: str) -> Sequence[Pin]:
        """What is known of a server's tools, those that wait for an admin first."""
        pins = await self._database.read(partial(read_pins, server=server)) or {}
        return sorted(pins.values(), key=lambda pin: (pin.offered is None, pin.tool))

    async def accept(self, server: str, seen: Mapping[str, str], who: str) -> None:
        """Accept tools as somebody has seen them, told by their hashes; all or none.

        Raises:
            NotFound: There is nothing about one of them to accept.
            Conflict: One of them is another by now.
        """
        await self._database.write(partial(accept_offers, server=server, seen=seen, who=who, now=self._now()))

    async def forget(self, server: str) -> None:
        """Forget what a server was like; the next look at it is the first."""
        await self._database.write(partial(delete_pins, server=server))

    async def _remember(
        self,
        server: str,
        pins: Mapping[str, Pin],
        offered: Mapping[str, ToolVersion],
        differing: Mapping[str, ToolVersion],
    ) -> None:
        """Keep for an admin what is new, and only that: servers are looked at often and seldom change."""
        news = {name: seen for name, seen in differing.items() if not is_offered(pins.get(name), seen)}
        if news:
            await self._database.write(partial(note_offers, server=server, offers=news, now=self._now()))
        settled = [name for name in offered if name not in differing and pins[name].offered is not None]
        if settled:
            await self._database.write(partial(drop_offers, server=server, tools=settled))


def version_of(card: ToolCard) -> ToolVersion:
    """What tells a tool from any that differs in what a model or a person is told of it."""
    said = {
        "title": card.title,
        "description": card.description,
        "input_schema": card.input_schema,
        "output_schema": card.output_schema,
        "annotations": card.annotations,
    }
    digest = sha256(json.dumps({"name": card.name, **said}, sort_keys=True).encode()).hexdigest()
    return ToolVersion(digest, {name: shown(value) for name, value in said.items()})


def shown(value: Any) -> str | None:
    """A part of a tool as people are shown it: a text, whatever it is."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    clean = text[:SHOWN_CHARS].replace("\0", "\ufffd").encode(errors="replace").decode()
    return clean if len(text) <= SHOWN_CHARS else f"{clean}\n[… {len(text) - SHOWN_CHARS} characters more]"


def is_accepted(pin: Pin | None, seen: ToolVersion) -> bool:
    """Whether a tool is as it was accepted."""
    return pin is not None and pin.accepted is not None and pin.accepted.hash == seen.hash


def is_offered(pin: Pin | None, seen: ToolVersion) -> bool:
    """Whether it is known that a tool is like this."""
    return pin is not None and pin.offered is not None and pin.offered.hash == seen.hash


def card_of(pin: Pin | None) -> ToolCard | None:
    """A tool as it was accepted, as far as it was kept."""
    if pin is None or pin.accepted is None:
        return None
    return ToolCard(pin.tool, description=pin.accepted.shown.get("description") or "")
