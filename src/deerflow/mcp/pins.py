"""Pins of MCP tools: a tool is trusted as first seen, and a changed tool has to be accepted by an admin."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

from deerflow.domain.taint import escape_invisible
from deerflow.mcp.queries import (
    PinnedVersion,
    ToolPin,
    accept_offers,
    clear_offers,
    delete_pins,
    pin_server,
    read_pins,
    upsert_offers,
)
from deerflow.mcp.status import McpToolInfo
from deerflow.persistence.engine.database import Database
from deerflow.persistence.tables import to_key


@dataclass(frozen=True, slots=True)
class ToolDiff:
    """Tool that differs from its accepted version."""

    name: str
    before: McpToolInfo | None
    """None for a new tool."""
    now: McpToolInfo


@dataclass(frozen=True, slots=True)
class PinCheck:
    """Tools that may be offered to agents, and those that have changed."""

    accepted: tuple[str, ...]
    changed: tuple[ToolDiff, ...] = ()


MAX_DISPLAY_CHARS = 50_000
"""Stored part of each text; the hash covers all of it."""


class ToolPins:
    """Accepted versions of tools, stored in the database."""

    def __init__(self, database: Database, now: Callable[[], datetime] | None = None) -> None:
        self._database = database
        self._now = now or (lambda: datetime.now(UTC))

    async def check(self, server: str, tools: Sequence[McpToolInfo]) -> PinCheck:
        """Check the tools a server offers now. The first time, all of them are accepted and stored."""
        infos = {info.name: info for info in tools if info.name}
        offered = await asyncio.to_thread(compute_versions, infos)  # schemas may be large
        pins = await self._database.read(partial(read_pins, server=server))
        if pins is None:
            await self._database.write(partial(pin_server, server=server, tools=offered, now=self._now()))
            # Read again: another process may have pinned the server just before, with another listing.
            pins = await self._database.read(partial(read_pins, server=server)) or {}
        pins = {name: pin for name in infos if (pin := pins.get(to_key(name))) is not None}
        changed = {name: seen for name, seen in offered.items() if not matches_accepted(pins.get(name), seen)}
        await self._store_offers(server, pins, offered, changed)
        diffs = [ToolDiff(name, to_accepted_tool(pins.get(name)), infos[name]) for name in changed]
        return PinCheck(tuple(name for name in infos if name not in changed), tuple(diffs))

    async def list(self, server: str) -> Sequence[ToolPin]:
        """Return the pins of a server, those that wait for an admin first; invisible characters are written out."""
        pins = await self._database.read(partial(read_pins, server=server)) or {}
        shown = [
            replace(pin, accepted=escape_version(pin.accepted), offered=escape_version(pin.offered))
            for pin in pins.values()
        ]
        return sorted(shown, key=lambda pin: (pin.offered is None, pin.tool))

    async def accept(self, server: str, seen: Mapping[str, str], user_id: str) -> None:
        """Accept tools as the user has seen them, identified by their hashes; all or none.

        Raises:
            NotFound: There is nothing to accept for one of them.
            Conflict: One of them has changed again.
        """
        await self._database.write(partial(accept_offers, server=server, seen=seen, user_id=user_id, now=self._now()))

    async def forget(self, server: str) -> None:
        """Delete the pins of a server. The next check is treated as the first."""
        await self._database.write(partial(delete_pins, server=server))

    async def _store_offers(
        self,
        server: str,
        pins: Mapping[str, ToolPin],
        offered: Mapping[str, PinnedVersion],
        changed: Mapping[str, PinnedVersion],
    ) -> None:
        """Store only new changes for an admin: servers are checked often and seldom change."""
        new = {name: seen for name, seen in changed.items() if not matches_offered(pins.get(name), seen)}
        if new:
            await self._database.write(partial(upsert_offers, server=server, offers=new, now=self._now()))
        settled = [name for name in offered if name not in changed and pins[name].offered is not None]
        if settled:
            await self._database.write(partial(clear_offers, server=server, tools=settled))


def compute_versions(infos: Mapping[str, McpToolInfo]) -> dict[str, PinnedVersion]:
    """Return the versions of tools by name."""
    return {name: compute_version(info) for name, info in infos.items()}


def compute_version(info: McpToolInfo) -> PinnedVersion:
    """Return a version that differs for every difference a model or user would see."""
    parts = {
        "title": info.title,
        "description": info.description,
        "input_schema": info.input_schema,
        "output_schema": info.output_schema,
        "annotations": info.annotations,
    }
    digest = sha256(json.dumps({"name": info.name, **parts}, sort_keys=True).encode()).hexdigest()
    return PinnedVersion(digest, {name: to_display_text(value) for name, value in parts.items()})


def to_display_text(value: Any) -> str | None:
    """Return a part of a tool as text for display."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    clean = text[:MAX_DISPLAY_CHARS].replace("\0", "\ufffd").encode(errors="replace").decode()
    return clean if len(text) <= MAX_DISPLAY_CHARS else f"{clean}\n[… {len(text) - MAX_DISPLAY_CHARS} characters more]"


def escape_version(version: PinnedVersion | None) -> PinnedVersion | None:
    """Return a version with the invisible characters in its texts written out."""
    if version is None:
        return None
    texts = {name: escape_invisible(text) if isinstance(text, str) else text for name, text in version.shown.items()}
    return replace(version, shown=texts)


def matches_accepted(pin: ToolPin | None, seen: PinnedVersion) -> bool:
    """Return whether a tool equals its accepted version."""
    return pin is not None and pin.accepted is not None and pin.accepted.hash == seen.hash


def matches_offered(pin: ToolPin | None, seen: PinnedVersion) -> bool:
    """Return whether this change of a tool is already stored."""
    return pin is not None and pin.offered is not None and pin.offered.hash == seen.hash


def to_accepted_tool(pin: ToolPin | None) -> McpToolInfo | None:
    """Return a tool as it was accepted, as far as it was stored."""
    if pin is None or pin.accepted is None:
        return None
    return McpToolInfo(pin.tool, description=pin.accepted.shown.get("description") or "")
