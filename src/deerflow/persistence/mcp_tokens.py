"""Logins at MCP servers, in the database. What is kept of them is sealed before it comes here."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module

from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select, update

from deerflow.persistence.tables import mcp_logins, mcp_tokens, to_key

MOST_BEGUN = 20
"""So many logins somebody may have begun; the oldest make room."""


@dataclass(frozen=True, slots=True)
class KeptToken:
    """What is kept of somebody's login at a server."""

    sealed: bytes
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """A login that waits for its person to come back."""

    server: str
    sealed: bytes
    expires_at: datetime


def read_token(connection: Connection, owner: str, server: str) -> KeptToken | None:
    """What is kept of the owner's login at a server."""
    query = select(mcp_tokens.c.sealed, mcp_tokens.c.updated_at).where(mine(owner, server))
    row = connection.execute(query).first()
    return KeptToken(row.sealed, row.updated_at) if row is not None and row.sealed is not None else None


def write_token(connection: Connection, owner: str, server: str, sealed: bytes, now: datetime) -> None:
    """Keep a login in place of what was there; whoever was fetching a token for the former one comes too late."""
    values = {"sealed": sealed, "updated_at": now, "claim": None, "claimed_until": None}
    make_row(connection, owner, server, now)
    connection.execute(update(mcp_tokens).where(mine(owner, server)), values)


def claim_token(
    connection: Connection, owner: str, server: str, claim: str, now: datetime, lease: timedelta
) -> KeptToken | bool:
    """Be the one who fetches a new token: what is kept, or True when nothing is; False while somebody else does."""
    make_row(connection, owner, server, now)
    free = or_(mcp_tokens.c.claim.is_(None), mcp_tokens.c.claimed_until < now)
    values = {"claim": claim, "claimed_until": now + lease}
    if not connection.execute(update(mcp_tokens).where(mine(owner, server), free), values).rowcount:
        return False
    return read_token(connection, owner, server) or True


def settle_claim(
    connection: Connection, owner: str, server: str, claim: str, sealed: bytes | None, now: datetime
) -> bool:
    """Keep what was fetched, if anything was, and let others fetch again; False when that came too late."""
    kept = {} if sealed is None else {"sealed": sealed, "updated_at": now}
    held = mine(owner, server) & (mcp_tokens.c.claim == claim)
    values = {**kept, "claim": None, "claimed_until": None}
    return bool(connection.execute(update(mcp_tokens).where(held), values).rowcount)


def delete_token(connection: Connection, owner: str, server: str) -> None:
    """Forget the owner's login at a server, also one that has only begun."""
    connection.execute(delete(mcp_tokens).where(mine(owner, server)))
    begun = (mcp_logins.c.owner == owner) & (mcp_logins.c.server == to_key(server))
    connection.execute(delete(mcp_logins).where(begun))


def delete_tokens_of(connection: Connection, owner: str) -> None:
    """Forget all logins of somebody who goes."""
    connection.execute(delete(mcp_tokens).where(mcp_tokens.c.owner == owner))
    connection.execute(delete(mcp_logins).where(mcp_logins.c.owner == owner))


def delete_tokens_at(connection: Connection, server: str) -> None:
    """Forget everybody's logins at a server that goes."""
    connection.execute(delete(mcp_tokens).where(mcp_tokens.c.server == to_key(server)))
    connection.execute(delete(mcp_logins).where(mcp_logins.c.server == to_key(server)))


def places_of_logins(connection: Connection, but_not: str) -> frozenset[str]:
    """The servers at which anybody has logged in, one owner left out."""
    query = select(mcp_tokens.c.server).distinct().where(mcp_tokens.c.owner != but_not)
    return frozenset(connection.execute(query).scalars())


def begin_login(connection: Connection, owner: str, state_hash: str, login: BegunLogin, now: datetime) -> None:
    """Keep a login that begins; those of the owner that are over, or too many, go."""
    theirs = mcp_logins.c.owner == owner
    connection.execute(delete(mcp_logins).where(theirs, mcp_logins.c.expires_at < now))
    newest = select(mcp_logins.c.state_hash).where(theirs).order_by(mcp_logins.c.expires_at.desc())
    spared = connection.execute(newest.limit(MOST_BEGUN - 1)).scalars().all()
    connection.execute(delete(mcp_logins).where(theirs, mcp_logins.c.state_hash.not_in(spared)))
    row = {"state_hash": state_hash, "owner": owner, "server": to_key(login.server)}
    connection.execute(insert(mcp_logins), {**row, "sealed": login.sealed, "expires_at": login.expires_at})


def take_login(connection: Connection, owner: str, state_hash: str, now: datetime) -> BegunLogin | None:
    """The login that the owner has begun under this state; it is there once, and not for ever."""
    which = (mcp_logins.c.owner == owner) & (mcp_logins.c.state_hash == state_hash)
    row = connection.execute(select(mcp_logins).where(which)).first()
    if row is None or not connection.execute(delete(mcp_logins).where(which)).rowcount:
        return None
    return BegunLogin(row.server, row.sealed, row.expires_at) if row.expires_at >= now else None


def make_row(connection: Connection, owner: str, server: str, now: datetime) -> None:
    """Have a row to claim."""
    either = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert
    row = {"owner": owner, "server": to_key(server), "updated_at": now}
    connection.execute(either(mcp_tokens).values(row).on_conflict_do_nothing())


def mine(owner: str, server: str) -> ColumnElement[bool]:
    """That a row is of the owner's login at a server."""
    return (mcp_tokens.c.owner == owner) & (mcp_tokens.c.server == to_key(server))
