"""SQL of MCP: pins of tools, which have no owner, and stored logins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, or_, select, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.persistence.tables import insert_or_ignore, mcp_logins, mcp_pins, mcp_tokens, to_key

SERVER_ROW = ""
"""Tool name of the row that marks a server as seen."""
PinState = Literal["accepted", "changed", "added"]
MAX_OFFERED_TOOLS = 2000
"""Maximum number of stored tools; more are not stored for review and stay disabled."""


@dataclass(frozen=True, slots=True)
class PinnedVersion:
    """Hash of a version of a tool, and its texts for display."""

    hash: str
    shown: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolPin:
    """Tool as it was accepted, and as it is offered where that differs."""

    tool: str
    accepted: PinnedVersion | None
    accepted_at: datetime | None
    accepted_by: str | None
    """None when accepted on first use."""
    offered: PinnedVersion | None
    offered_at: datetime | None

    @property
    def state(self) -> PinState:
        """Return the state of the pin."""
        if self.offered is None:
            return "accepted"
        return "changed" if self.accepted is not None else "added"


def read_pins(connection: Connection, server: str) -> Mapping[str, ToolPin] | None:
    """Return the pins of a server by tool key; None when the server has not been seen."""
    query = select(mcp_pins).where(mcp_pins.c.server == to_key(server)).order_by(mcp_pins.c.tool)
    found = {row.tool: to_pin(row) for row in connection.execute(query)}
    if SERVER_ROW not in found:
        return None
    return {tool: pin for tool, pin in found.items() if tool != SERVER_ROW}


def pin_server(connection: Connection, server: str, tools: Mapping[str, PinnedVersion], now: datetime) -> bool:
    """Accept the tools of a server seen for the first time; return False when another process has just done so."""
    if not insert_pins(connection, server, {SERVER_ROW: {"accepted_at": now}}):
        return False
    rows = {tool: {"hash": seen.hash, "shown": dict(seen.shown), "accepted_at": now} for tool, seen in tools.items()}
    insert_pins(connection, server, rows)
    return True


def upsert_offers(connection: Connection, server: str, offers: Mapping[str, PinnedVersion], now: datetime) -> None:
    """Store tools that differ from their accepted version."""
    for tool, seen in offers.items():
        values = {"offered_hash": seen.hash, "offered": dict(seen.shown), "offered_at": now}
        changed = connection.execute(update(mcp_pins).where(match_tool(server, tool)), values)
        if not changed.rowcount and count_pins(connection, server) < MAX_OFFERED_TOOLS:
            insert_pins(connection, server, {tool: values})


def clear_offers(connection: Connection, server: str, tools: Sequence[str]) -> None:
    """Clear the offers of tools that equal their accepted version again."""
    which = and_(mcp_pins.c.server == to_key(server), mcp_pins.c.tool.in_([to_key(tool) for tool in tools]))
    connection.execute(update(mcp_pins).where(which), {"offered_hash": None, "offered": None, "offered_at": None})


def accept_offers(connection: Connection, server: str, seen: Mapping[str, str], user_id: str, now: datetime) -> None:
    """Accept tools identified by their hashes; all or none.

    Raises:
        NotFound: There is no such tool, or nothing to accept.
        Conflict: The tool has changed again.
    """
    for tool, digest in seen.items():
        row = connection.execute(select(mcp_pins).where(match_tool(server, tool))).first()
        if row is None or row.offered_hash is None:
            raise NotFound(f"nothing to accept for {tool!r} of {server!r}")
        values = {"hash": row.offered_hash, "shown": row.offered, "accepted_at": now, "accepted_by": user_id}
        same = and_(match_tool(server, tool), mcp_pins.c.offered_hash == digest)
        cleared = {"offered_hash": None, "offered": None, "offered_at": None}
        if not connection.execute(update(mcp_pins).where(same), {**values, **cleared}).rowcount:
            raise Conflict(f"{tool!r} of {server!r} has changed again; review it again")


def delete_pins(connection: Connection, server: str) -> None:
    """Delete the pins of a server."""
    connection.execute(delete(mcp_pins).where(mcp_pins.c.server == to_key(server)))


def insert_pins(connection: Connection, server: str, rows: Mapping[str, Mapping[str, Any]]) -> int:
    """Insert missing pins and return their number."""
    added = 0
    for tool, values in rows.items():
        row = {"server": to_key(server), "tool": to_key(tool), **values}
        added += insert_or_ignore(connection, mcp_pins, row)
    return added


def count_pins(connection: Connection, server: str) -> int:
    """Return the number of pins of a server."""
    return connection.execute(select(func.count()).where(mcp_pins.c.server == to_key(server))).scalar_one()


def match_tool(server: str, tool: str) -> Any:
    """Return the condition for the row of a tool."""
    return and_(mcp_pins.c.server == to_key(server), mcp_pins.c.tool == to_key(tool))


def to_pin(row: Row[Any]) -> ToolPin:
    """Return the pin of a row."""
    accepted = PinnedVersion(row.hash, row.shown) if row.hash is not None else None
    offered = PinnedVersion(row.offered_hash, row.offered) if row.offered_hash is not None else None
    return ToolPin(row.tool, accepted, row.accepted_at, row.accepted_by, offered, row.offered_at)


MAX_PENDING_LOGINS = 20
"""Pending logins per owner; the oldest are deleted."""


@dataclass(frozen=True, slots=True)
class StoredToken:
    """Encrypted login of an owner at a server."""

    sealed: bytes
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """Login that waits for the redirect."""

    server: str
    sealed: bytes
    expires_at: datetime


def read_token(connection: Connection, owner: str, server: str) -> StoredToken | None:
    """Return the owner's login at a server."""
    query = select(mcp_tokens.c.sealed, mcp_tokens.c.updated_at).where(match_owner(owner, server))
    row = connection.execute(query).first()
    return StoredToken(row.sealed, row.updated_at) if row is not None and row.sealed is not None else None


def write_token(connection: Connection, owner: str, server: str, sealed: bytes, now: datetime) -> None:
    """Store a login and cancel the claim of a renewal in progress."""
    values = {"sealed": sealed, "updated_at": now, "claim": None, "claimed_until": None}
    ensure_row(connection, owner, server, now)
    connection.execute(update(mcp_tokens).where(match_owner(owner, server)), values)


def claim_token(
    connection: Connection, owner: str, server: str, claim: str, now: datetime, lease: timedelta
) -> StoredToken | bool:
    """Claim the renewal of a token. Return the login, True when there is none, False while another process does."""
    ensure_row(connection, owner, server, now)
    free = or_(mcp_tokens.c.claim.is_(None), mcp_tokens.c.claimed_until < now)
    values = {"claim": claim, "claimed_until": now + lease}
    if not connection.execute(update(mcp_tokens).where(match_owner(owner, server), free), values).rowcount:
        return False
    return read_token(connection, owner, server) or True


def release_claim(
    connection: Connection, owner: str, server: str, claim: str, sealed: bytes | None, now: datetime
) -> bool:
    """Store the renewed login, if any, and release the claim; return False when the claim was lost."""
    kept = {} if sealed is None else {"sealed": sealed, "updated_at": now}
    held = match_owner(owner, server) & (mcp_tokens.c.claim == claim)
    values = {**kept, "claim": None, "claimed_until": None}
    return bool(connection.execute(update(mcp_tokens).where(held), values).rowcount)


def delete_token(connection: Connection, owner: str, server: str) -> None:
    """Delete the owner's login at a server, also a pending one."""
    connection.execute(delete(mcp_tokens).where(match_owner(owner, server)))
    pending = (mcp_logins.c.owner == owner) & (mcp_logins.c.server == to_key(server))
    connection.execute(delete(mcp_logins).where(pending))


def delete_server_tokens(connection: Connection, server: str) -> None:
    """Delete all logins at a server."""
    connection.execute(delete(mcp_tokens).where(mcp_tokens.c.server == to_key(server)))
    connection.execute(delete(mcp_logins).where(mcp_logins.c.server == to_key(server)))


def list_login_servers(connection: Connection, except_owner: str) -> frozenset[str]:
    """Return the servers with logins, without those of one owner."""
    query = select(mcp_tokens.c.server).distinct().where(mcp_tokens.c.owner != except_owner)
    return frozenset(connection.execute(query).scalars())


def insert_login(connection: Connection, owner: str, state_hash: str, login: PendingLogin, now: datetime) -> None:
    """Store a pending login; expired and excess ones of the owner are deleted."""
    theirs = mcp_logins.c.owner == owner
    connection.execute(delete(mcp_logins).where(theirs, mcp_logins.c.expires_at < now))
    newest = select(mcp_logins.c.state_hash).where(theirs).order_by(mcp_logins.c.expires_at.desc())
    spared = connection.execute(newest.limit(MAX_PENDING_LOGINS - 1)).scalars().all()
    connection.execute(delete(mcp_logins).where(theirs, mcp_logins.c.state_hash.not_in(spared)))
    row = {"state_hash": state_hash, "owner": owner, "server": to_key(login.server)}
    connection.execute(insert(mcp_logins), {**row, "sealed": login.sealed, "expires_at": login.expires_at})


def pop_login(connection: Connection, owner: str, state_hash: str, now: datetime) -> PendingLogin | None:
    """Return and delete the owner's pending login with this state; None when it has expired."""
    which = (mcp_logins.c.owner == owner) & (mcp_logins.c.state_hash == state_hash)
    row = connection.execute(select(mcp_logins).where(which)).first()
    if row is None or not connection.execute(delete(mcp_logins).where(which)).rowcount:
        return None
    return PendingLogin(row.server, row.sealed, row.expires_at) if row.expires_at >= now else None


def ensure_row(connection: Connection, owner: str, server: str, now: datetime) -> None:
    """Insert the row to claim if it is missing."""
    row = {"owner": owner, "server": to_key(server), "updated_at": now}
    insert_or_ignore(connection, mcp_tokens, row)


def match_owner(owner: str, server: str) -> ColumnElement[bool]:
    """Return the condition for the owner's login at a server."""
    return (mcp_tokens.c.owner == owner) & (mcp_tokens.c.server == to_key(server))
