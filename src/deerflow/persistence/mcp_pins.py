"""Tools of MCP servers as an admin has accepted them, in the database. They are nobody's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Any, Literal

from sqlalchemy import Connection, Row, and_, delete, func, select, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.persistence.tables import mcp_pins, to_key

ITSELF = ""
"""In place of a tool: that the server has been seen."""
PinState = Literal["accepted", "changed", "added"]
MOST_OFFERED = 2000
"""More tools than so many are not kept for an admin to look at; they stay off all the same."""


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """What tells one version of a tool from another, and what people are shown of it."""

    hash: str
    shown: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool as it was accepted, and as it is offered where that differs."""

    tool: str
    accepted: ToolVersion | None
    accepted_at: datetime | None
    accepted_by: str | None
    """None: on first sight."""
    offered: ToolVersion | None
    offered_at: datetime | None

    @property
    def state(self) -> PinState:
        """What is to be done about it."""
        if self.offered is None:
            return "accepted"
        return "changed" if self.accepted is not None else "added"


def read_pins(connection: Connection, server: str) -> Mapping[str, Pin] | None:
    """What is known of a server's tools, by their names as keys; None when the server has not been seen."""
    query = select(mcp_pins).where(mcp_pins.c.server == to_key(server)).order_by(mcp_pins.c.tool)
    found = {row.tool: to_pin(row) for row in connection.execute(query)}
    if ITSELF not in found:
        return None
    return {tool: pin for tool, pin in found.items() if tool != ITSELF}


def pin_server(connection: Connection, server: str, tools: Mapping[str, ToolVersion], now: datetime) -> bool:
    """Accept a server as it is seen for the first time; False when somebody has just done so."""
    if not add(connection, server, {ITSELF: {"accepted_at": now}}):
        return False
    rows = {tool: {"hash": seen.hash, "shown": dict(seen.shown), "accepted_at": now} for tool, seen in tools.items()}
    add(connection, server, rows)
    return True


def note_offers(connection: Connection, server: str, offers: Mapping[str, ToolVersion], now: datetime) -> None:
    """Keep what tools are like that differ from what was accepted, for an admin to look at."""
    for tool, seen in offers.items():
        values = {"offered_hash": seen.hash, "offered": dict(seen.shown), "offered_at": now}
        changed = connection.execute(update(mcp_pins).where(of(server, tool)), values)
        if not changed.rowcount and count(connection, server) < MOST_OFFERED:
            add(connection, server, {tool: values})


def drop_offers(connection: Connection, server: str, tools: Sequence[str]) -> None:
    """Forget how tools differed that are again as they were accepted."""
    which = and_(mcp_pins.c.server == to_key(server), mcp_pins.c.tool.in_([to_key(tool) for tool in tools]))
    connection.execute(update(mcp_pins).where(which), {"offered_hash": None, "offered": None, "offered_at": None})


def accept_offers(connection: Connection, server: str, seen: Mapping[str, str], who: str, now: datetime) -> None:
    """Accept tools as somebody has seen them, told by their hashes; all or none.

    Raises:
        NotFound: There is no such tool, or nothing about it to accept.
        Conflict: It is another one by now.
    """
    for tool, digest in seen.items():
        row = connection.execute(select(mcp_pins).where(of(server, tool))).first()
        if row is None or row.offered_hash is None:
            raise NotFound(f"there is nothing to accept about {tool!r} of {server!r}")
        values = {"hash": row.offered_hash, "shown": row.offered, "accepted_at": now, "accepted_by": who}
        same = and_(of(server, tool), mcp_pins.c.offered_hash == digest)
        cleared = {"offered_hash": None, "offered": None, "offered_at": None}
        if not connection.execute(update(mcp_pins).where(same), {**values, **cleared}).rowcount:
            raise Conflict(f"{tool!r} of {server!r} has changed again: look at it once more")


def delete_pins(connection: Connection, server: str) -> None:
    """Forget what a server was like."""
    connection.execute(delete(mcp_pins).where(mcp_pins.c.server == to_key(server)))


def add(connection: Connection, server: str, rows: Mapping[str, Mapping[str, Any]]) -> int:
    """Add tools that are not there; how many of them were not."""
    either = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert
    added = 0
    for tool, values in rows.items():
        row = {"server": to_key(server), "tool": to_key(tool), **values}
        added += connection.execute(either(mcp_pins).values(row).on_conflict_do_nothing()).rowcount
    return added


def count(connection: Connection, server: str) -> int:
    """How many tools are kept of a server."""
    return connection.execute(select(func.count()).where(mcp_pins.c.server == to_key(server))).scalar_one()


def of(server: str, tool: str) -> Any:
    """That a row is about this tool."""
    return and_(mcp_pins.c.server == to_key(server), mcp_pins.c.tool == to_key(tool))


def to_pin(row: Row[Any]) -> Pin:
    """A row in the words of the domain."""
    accepted = ToolVersion(row.hash, row.shown) if row.hash is not None else None
    offered = ToolVersion(row.offered_hash, row.offered) if row.offered_hash is not None else None
    return Pin(row.tool, accepted, row.accepted_at, row.accepted_by, offered, row.offered_at)
