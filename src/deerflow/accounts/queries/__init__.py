"""SQL of accounts, sessions, API tokens, links and failed logins."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, insert, select, update

from deerflow.accounts.model import (
    AccountLink,
    AccountRole,
    ApiToken,
    Credential,
    LoginSession,
    UserAccount,
    to_email_key,
)
from deerflow.domain.errors import Conflict, NotFound, Unauthorized
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.persistence.queries.deletions import begin_user_deletion
from deerflow.persistence.tables import EPOCH, accounts, api_tokens, daily_spending, insert_or_ignore, to_key, to_stored
from deerflow.persistence.tables import account_links as links
from deerflow.persistence.tables import login_failures as failures
from deerflow.persistence.tables import login_sessions as sessions

ADMIN: AccountRole = "admin"
LINK_NOT_FOUND = "this link was used, has expired or was withdrawn"
LAST_ADMIN = "this is the last administrator; make another account an administrator first"
ACCOUNT_FIELDS = tuple(UserAccount.__slots__)
MAX_TOKENS, MAX_SESSIONS, MAX_LINKS = 100, 100, 500
"""Maximum number of API tokens and sessions of an account, and of links. The oldest session gives way."""


def has_accounts(connection: Connection) -> bool:
    """Return whether there is any account."""
    return connection.execute(select(accounts.c.user_id).limit(1)).first() is not None


def list_accounts(connection: Connection) -> Sequence[UserAccount]:
    """Return all accounts, oldest first."""
    query = select(*(accounts.c[name] for name in ACCOUNT_FIELDS)).order_by(accounts.c.created_at, accounts.c.user_id)
    return [UserAccount(**row._mapping) for row in connection.execute(query)]


def find_account(connection: Connection, owner: str) -> UserAccount:
    """Return an account, or raise `NotFound`."""
    return to_account(read_account(connection, accounts.c.user_id == owner), owner)


def find_account_by_email(connection: Connection, email: str) -> UserAccount:
    """Return the account of an e-mail address, or raise `NotFound`."""
    return to_account(read_account(connection, accounts.c.email_key == to_email_key(email)), email)


def find_password(connection: Connection, email: str) -> tuple[UserAccount, str] | None:
    """Return the account of an e-mail address with its password hash; None if there is none."""
    row = read_account(connection, accounts.c.email_key == to_email_key(email))
    return (to_account(row, email), row.password_hash) if row is not None else None


def read_account(connection: Connection, which: ColumnElement[bool]) -> Row[Any] | None:
    """Return the row of an account."""
    return connection.execute(select(accounts).where(which)).first()


def to_account(row: Row[Any] | None, name: str) -> UserAccount:
    """Convert a row to an account, or raise `NotFound`."""
    if row is None:
        raise NotFound(f"no account {name!r}")
    return UserAccount(**{field: row._mapping[field] for field in ACCOUNT_FIELDS})


def add_first_account(connection: Connection, email: str, password_hash: str, now: datetime) -> UserAccount:
    """Create the first account, an administrator that owns the data of the local user.

    Raises:
        Conflict: There is an account already.
    """
    if has_accounts(connection):
        raise Conflict("there is an account already; log in")
    # The id is the same for all who try at once, so one of them succeeds.
    return insert_account(connection, LOCAL_USER.user_id, email, password_hash, ADMIN, now)


def insert_account(
    connection: Connection, owner: str, email: str, password_hash: str, role: AccountRole, now: datetime
) -> UserAccount:
    """Create an account.

    Raises:
        Conflict: The id or the e-mail address is taken.
    """
    account = UserAccount(owner, email, role, is_active=True, created_at=now)
    row = {**asdict(account), "email_key": to_email_key(email), "password_hash": password_hash}
    insert_or_ignore(connection, accounts, row)
    # The number of inserted rows is unknown to some drivers; no two hashes are the same.
    found = read_account(connection, accounts.c.user_id == owner)
    if found is None or found.password_hash != password_hash:
        raise Conflict(f"there is an account for {email!r} already")
    return account


def redeem_invitation(
    connection: Connection, owner: str, token_hash: str, email: str, password_hash: str, now: datetime
) -> UserAccount:
    """Create the account that a person was invited to; the invitation is used up.

    Raises:
        NotFound: The invitation is not valid, or is for another address.
        Conflict: The e-mail address has an account.
    """
    link = take_link(connection, token_hash, now)
    if link.kind != "invitation" or (link.email and to_email_key(link.email) != to_email_key(email)):
        raise NotFound(LINK_NOT_FOUND)
    return insert_account(connection, owner, email, password_hash, link.role, now)


def redeem_reset(connection: Connection, token_hash: str, password_hash: str, now: datetime) -> UserAccount:
    """Set the password of the account of a reset link, which is used up. All sessions of the account end.

    Raises:
        NotFound: The link is not valid.
    """
    link = take_link(connection, token_hash, now)
    if link.user_id is None:
        raise NotFound(LINK_NOT_FOUND)
    set_password(connection, link.user_id, password_hash)
    return find_account(connection, link.user_id)


def take_link(connection: Connection, token_hash: str, now: datetime) -> AccountLink:
    """Delete a valid link and return it, or raise `NotFound`. Of several who try at once, one succeeds."""
    link = find_link(connection, token_hash, now)
    if not connection.execute(delete(links).where(links.c.link_id == link.link_id)).rowcount:
        raise NotFound(LINK_NOT_FOUND)
    return link


def find_link(connection: Connection, token_hash: str, now: datetime) -> AccountLink:
    """Return a valid link, or raise `NotFound`."""
    row = connection.execute(select(links).where(links.c.token_hash == token_hash, links.c.expires_at > now)).first()
    if row is None:
        raise NotFound(LINK_NOT_FOUND)
    return to_link(row)


def to_link(row: Row[Any]) -> AccountLink:
    """Convert a row to a link."""
    return AccountLink(**{field: row._mapping[field] for field in AccountLink.__slots__})


def insert_link(connection: Connection, new: AccountLink, token_hash: str) -> None:
    """Store a link; another one for the same account is no longer valid. Expired ones are removed.

    Raises:
        NotFound: There is no such account.
        Conflict: There are too many links.
    """
    connection.execute(delete(links).where(links.c.expires_at <= new.created_at))
    if new.user_id is not None:
        find_account(connection, new.user_id)
        connection.execute(delete(links).where(links.c.user_id == new.user_id))
    if len(connection.execute(select(links.c.link_id).limit(MAX_LINKS)).all()) >= MAX_LINKS:
        raise Conflict(f"at most {MAX_LINKS} links can be open; withdraw some first")
    connection.execute(insert(links), {**asdict(new), "token_hash": token_hash})


def list_invitations(connection: Connection, now: datetime) -> Sequence[AccountLink]:
    """Return the invitations that can still be used, oldest first."""
    query = select(links).where(links.c.user_id.is_(None), links.c.expires_at > now).order_by(links.c.created_at)
    return [to_link(row) for row in connection.execute(query)]


def delete_invitation(connection: Connection, link_id: str) -> None:
    """Withdraw an invitation, or raise `NotFound`."""
    which = (links.c.link_id == link_id, links.c.user_id.is_(None))
    if not connection.execute(delete(links).where(*which)).rowcount:
        raise NotFound(f"no invitation {link_id!r}")


def set_password(connection: Connection, owner: str, password_hash: str, keep_session: str | None = None) -> None:
    """Store a new password and end the sessions of the account, except one. Reset links are no longer valid."""
    connection.execute(update(accounts).where(accounts.c.user_id == owner), {"password_hash": password_hash})
    connection.execute(delete(links).where(links.c.user_id == owner))
    delete_sessions(connection, owner, keep_session)


def replace_hash(connection: Connection, owner: str, old: str, new: str) -> None:
    """Replace the hash of a password by one with other parameters, unless the password has changed meanwhile."""
    unchanged = (accounts.c.user_id == owner, accounts.c.password_hash == old)
    connection.execute(update(accounts).where(*unchanged), {"password_hash": new})


def change_account(
    connection: Connection, owner: str, role: AccountRole | None = None, is_active: bool | None = None
) -> UserAccount:
    """Change role and state of an account. Deactivation ends its sessions.

    Raises:
        NotFound: There is no such account.
        Conflict: No active administrator would be left.
    """
    changes = {"role": role, "is_active": is_active}
    given = {name: value for name, value in changes.items() if value is not None}
    admins = lock_admins(connection)
    find_account(connection, owner)
    if (role not in (None, ADMIN) or is_active is False) and admins == {owner}:
        raise Conflict(LAST_ADMIN)
    if given:
        connection.execute(update(accounts).where(accounts.c.user_id == owner), given)
    if is_active is False:
        delete_sessions(connection, owner)
        connection.execute(delete(links).where(links.c.user_id == owner))
    return find_account(connection, owner)


def delete_account(connection: Connection, owner: str, process: str, subject: str, now: datetime) -> None:
    """Delete an account with its sessions, tokens, links, quota, failed logins (of `subject`), and invitations to it.

    What else the person has is deleted by `process`.

    Raises:
        NotFound: There is no such account.
        Conflict: No active administrator would be left.
    """
    if lock_admins(connection) == {owner}:
        raise Conflict(LAST_ADMIN)
    email_key = to_email_key(find_account(connection, owner).email)
    if not connection.execute(delete(accounts).where(accounts.c.user_id == owner)).rowcount:
        raise NotFound(f"no account {owner!r}")
    invited = connection.execute(select(links.c.link_id, links.c.email).where(links.c.email.is_not(None))).all()
    for row in invited:
        if to_email_key(row.email) == email_key:
            connection.execute(delete(links).where(links.c.link_id == row.link_id))
    connection.execute(delete(failures).where(failures.c.subject == subject))
    begin_user_deletion(connection, owner, process, now)
    connection.execute(delete(daily_spending).where(daily_spending.c.owner == owner))


def lock_admins(connection: Connection) -> set[str]:
    """Return the ids of active administrators; no other transaction changes them before the end of this one."""
    query = select(accounts.c.user_id).where(accounts.c.role == ADMIN, accounts.c.is_active)
    return set(connection.execute(query.order_by(accounts.c.user_id).with_for_update()).scalars())


def insert_session(
    connection: Connection, new: LoginSession, token_hash: str, password_hash: str, replaced: str | None = None
) -> None:
    """Store a session in place of the one whose token has the hash `replaced`. Sessions that are too many end.

    Raises:
        Unauthorized: The account was deactivated, or its password changed, after it was checked.
    """
    current = (accounts.c.user_id == new.owner, accounts.c.password_hash == password_hash, accounts.c.is_active)
    if not connection.execute(update(accounts).where(*current), {"last_login_at": new.created_at}).rowcount:
        raise Unauthorized("the account has changed; log in again")
    if replaced is not None:
        connection.execute(delete(sessions).where(sessions.c.token_hash == replaced))
    connection.execute(delete(sessions).where(sessions.c.owner == new.owner, sessions.c.expires_at <= new.created_at))
    newest = select(sessions.c.session_id).where(sessions.c.owner == new.owner)
    too_old = connection.execute(newest.order_by(sessions.c.last_used_at.desc()).offset(MAX_SESSIONS - 1)).scalars()
    for session_id in list(too_old):
        connection.execute(delete(sessions).where(sessions.c.session_id == session_id))
    connection.execute(insert(sessions), {**asdict(new), "token_hash": token_hash})


def list_sessions(connection: Connection, owner: str, now: datetime, idle: timedelta) -> Sequence[LoginSession]:
    """Return the valid sessions of an account, last used first."""
    valid = (sessions.c.owner == owner, sessions.c.expires_at > now, sessions.c.last_used_at > now - idle)
    fields = [sessions.c[name] for name in LoginSession.__slots__]
    found = connection.execute(select(*fields).where(*valid).order_by(sessions.c.last_used_at.desc()))
    return [LoginSession(**row._mapping) for row in found]


def delete_session(connection: Connection, owner: str, session_id: str) -> None:
    """End a session, or raise `NotFound`."""
    which = (sessions.c.owner == owner, sessions.c.session_id == session_id)
    if not connection.execute(delete(sessions).where(*which)).rowcount:
        raise NotFound(f"no session {session_id!r}")


def delete_sessions(connection: Connection, owner: str, keep_session: str | None = None) -> None:
    """End the sessions of an account, except one."""
    which = sessions.c.owner == owner
    if keep_session is not None:
        which &= sessions.c.session_id != keep_session
    connection.execute(delete(sessions).where(which))


def insert_token(connection: Connection, new: ApiToken, token_hash: str) -> None:
    """Store an API token.

    Raises:
        NotFound: There is no such account.
        Conflict: The account has too many tokens.
    """
    find_account(connection, new.owner)
    if len(list_tokens(connection, new.owner)) >= MAX_TOKENS:
        raise Conflict(f"at most {MAX_TOKENS} tokens can be kept; revoke some first")
    connection.execute(insert(api_tokens), {**asdict(new), "name": to_key(new.name), "token_hash": token_hash})


def list_tokens(connection: Connection, owner: str) -> Sequence[ApiToken]:
    """Return the API tokens of an account, oldest first, including expired ones."""
    fields = [api_tokens.c[name] for name in ApiToken.__slots__]
    query = select(*fields).where(api_tokens.c.owner == owner).order_by(api_tokens.c.created_at)
    return [ApiToken(**row._mapping) for row in connection.execute(query)]


def delete_token(connection: Connection, owner: str, token_id: str) -> None:
    """Revoke an API token, or raise `NotFound`."""
    which = (api_tokens.c.owner == owner, api_tokens.c.token_id == token_id)
    if not connection.execute(delete(api_tokens).where(*which)).rowcount:
        raise NotFound(f"no token {token_id!r}")


def find_credentials(
    connection: Connection, hashes: Collection[str], now: datetime, idle: timedelta
) -> Mapping[str, tuple[Credential, datetime]]:
    """Return the valid sessions and API tokens with these hashes, each with the time of its last use."""
    found: dict[str, tuple[Credential, datetime]] = {}
    in_use = (sessions.c.expires_at > now, sessions.c.last_used_at > now - idle)
    rights = (accounts.c.user_id, accounts.c.role)
    columns = (sessions.c.token_hash, sessions.c.session_id, sessions.c.last_used_at, *rights)
    query = select(*columns).join(accounts, accounts.c.user_id == sessions.c.owner)
    for row in connection.execute(query.where(sessions.c.token_hash.in_(hashes), accounts.c.is_active, *in_use)):
        user = Principal(row.user_id, is_admin=row.role == ADMIN)
        found[row.token_hash] = Credential("session", row.session_id, user), row.last_used_at
    not_expired = api_tokens.c.expires_at.is_(None) | (api_tokens.c.expires_at > now)
    kept = (api_tokens.c.token_hash, api_tokens.c.token_id, api_tokens.c.scope, api_tokens.c.last_used_at, *rights)
    tokens = select(*kept).join(accounts, accounts.c.user_id == api_tokens.c.owner)
    wanted = (api_tokens.c.token_hash.in_(hashes), accounts.c.is_active, not_expired)
    for token in connection.execute(tokens.where(*wanted)):
        user = Principal(token.user_id, is_admin=token.role == ADMIN and token.scope == ADMIN)
        found[token.token_hash] = Credential("token", token.token_id, user, token.scope), token.last_used_at or EPOCH
    return found


def record_use(connection: Connection, credential: Credential, now: datetime) -> None:
    """Store the time of the last use of a session or token."""
    table: Table = sessions if credential.kind == "session" else api_tokens
    key = table.c.session_id if credential.kind == "session" else table.c.token_id
    connection.execute(update(table).where(key == credential.credential_id), {"last_used_at": now})


def reserve_failures(
    connection: Connection, limits: Mapping[str, int], now: datetime, window: timedelta
) -> datetime | None:
    """Count a login as failed for all subjects of `limits`; `release_failures` removes it.

    Return None, or the time of the next login that is allowed if a subject has reached its limit.
    """
    connection.execute(delete(failures).where(failures.c.updated_at <= now - window))
    start, moment = to_stored(now - window), to_stored(now)
    recent: dict[str, list[int]] = {}
    for subject, limit in sorted(limits.items()):  # the order in which they are locked
        insert_or_ignore(connection, failures, {"subject": subject, "failures": [], "updated_at": now})
        query = select(failures.c.failures).where(failures.c.subject == subject).with_for_update()
        times = connection.execute(query).scalar_one()
        recent[subject] = [time for time in times if time > start]
        if len(recent[subject]) >= limit:
            return EPOCH + timedelta(microseconds=min(recent[subject][-limit:])) + window
    for subject, times in recent.items():
        changed = {"failures": [*times, moment], "updated_at": now}
        connection.execute(update(failures).where(failures.c.subject == subject), changed)
    return None


def release_failures(connection: Connection, subjects: Collection[str], reserved_at: datetime) -> None:
    """Remove a login from the failures."""
    for subject in sorted(subjects):
        query = select(failures.c.failures).where(failures.c.subject == subject).with_for_update()
        times: list[int] | None = connection.execute(query).scalar()
        if times is not None and to_stored(reserved_at) in times:
            times = list(times)
            times.remove(to_stored(reserved_at))
            connection.execute(update(failures).where(failures.c.subject == subject), {"failures": times})
