"""SQL of identities at OpenID providers, of passkeys, and of logins that have begun."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from deerflow.accounts.model import Identity, LoginAttempt, Passkey, UserAccount, hash_secret
from deerflow.accounts.queries import insert_account, read_account, to_account
from deerflow.domain.errors import Conflict, NotFound, TooManyAttempts
from deerflow.persistence.tables import accounts, identities, insert_or_ignore, login_attempts, passkeys, to_key

MAX_ATTEMPTS, MAX_NETWORK_ATTEMPTS = 20_000, 100
"""Maximum number of logins that have begun, of all and of one network."""
MAX_PASSKEYS = 20
RETRY_S = 60.0
LAST_METHOD = "this is the only way to log in to the account; set a password or add another one first"
UNUSABLE_PASSWORD = "!"
"""Beginning of the stored password of an account that has none."""


def insert_attempt(connection: Connection, new: LoginAttempt, key_hash: str, now: datetime) -> None:
    """Store a login that has begun; expired ones are removed.

    Raises:
        TooManyAttempts: Too many have begun.
    """
    connection.execute(delete(login_attempts).where(login_attempts.c.expires_at <= now))
    for limit, which in (
        (MAX_NETWORK_ATTEMPTS, login_attempts.c.network == new.network),
        (MAX_ATTEMPTS, login_attempts.c.expires_at > now),
    ):
        if connection.execute(select(func.count()).select_from(login_attempts).where(which)).scalar_one() >= limit:
            raise TooManyAttempts("too many logins have begun; try again in a few minutes", RETRY_S)
    connection.execute(insert(login_attempts), {**asdict(new), "key_hash": key_hash})


def take_attempt(connection: Connection, key_hash: str, kind: str, now: datetime) -> LoginAttempt:
    """Delete a login that has begun and return it, or raise `NotFound`. Of several who try at once, one succeeds."""
    which = (login_attempts.c.key_hash == key_hash, login_attempts.c.kind == kind, login_attempts.c.expires_at > now)
    row = connection.execute(select(login_attempts).where(*which)).first()
    if row is None or not connection.execute(delete(login_attempts).where(*which)).rowcount:
        raise NotFound("this login was finished, or took too long; try again")
    return LoginAttempt(**{field: row._mapping[field] for field in LoginAttempt.__slots__})


def find_identity(connection: Connection, issuer: str, subject: str) -> Identity | None:
    """Return the identity of a subject of an issuer; None if it is unknown."""
    which = (identities.c.issuer == issuer, identities.c.subject == subject)
    row = connection.execute(select(identities).where(*which)).first()
    return to_identity(row) if row is not None else None


def to_identity(row: Row[Any]) -> Identity:
    """Convert a row to an identity."""
    return Identity(**{field: row._mapping[field] for field in Identity.__slots__})


def list_identities(connection: Connection, owner: str) -> Sequence[Identity]:
    """Return the identities of an account, oldest first."""
    query = select(identities).where(identities.c.owner == owner).order_by(identities.c.created_at)
    return [to_identity(row) for row in connection.execute(query)]


def insert_identity(connection: Connection, new: Identity) -> None:
    """Store an identity.

    Raises:
        NotFound: There is no such account.
        Conflict: It belongs to an account already.
    """
    to_account(read_account(connection, accounts.c.user_id == new.owner), new.owner)
    insert_or_ignore(connection, identities, asdict(new))
    found = find_identity(connection, new.issuer, new.subject)
    if found is None or found.identity_id != new.identity_id:
        raise Conflict("this login belongs to an account already")


def create_account_of(connection: Connection, new: Identity, account: UserAccount, password_hash: str) -> None:
    """Create an account with its first identity.

    Raises:
        Conflict: The e-mail address has an account, or the identity belongs to one.
    """
    values = (account.user_id, account.email, password_hash, account.role, account.created_at)
    insert_account(connection, *values)
    insert_identity(connection, new)


def record_identity_use(connection: Connection, identity: Identity, email: str, now: datetime) -> None:
    """Store the time of a login, and the address that the provider has for the person."""
    which = identities.c.identity_id == identity.identity_id
    connection.execute(update(identities).where(which), {"last_used_at": now, "email": email})


def delete_identity(connection: Connection, owner: str, identity_id: str) -> None:
    """Remove an identity of an account.

    Raises:
        NotFound: There is none.
        Conflict: The account has no other way to log in.
    """
    require_other_method(connection, owner, identity_id)
    which = (identities.c.owner == owner, identities.c.identity_id == identity_id)
    if not connection.execute(delete(identities).where(*which)).rowcount:
        raise NotFound(f"no identity {identity_id!r}")


def require_other_method(connection: Connection, owner: str, removed: str) -> None:
    """Raise `Conflict` if an account would have no password, identity or passkey left."""
    query = select(accounts.c.password_hash).where(accounts.c.user_id == owner).with_for_update()
    password = connection.execute(query).scalar()  # the local user has no account
    if password is None or not password.startswith(UNUSABLE_PASSWORD):
        return
    ids = {each.identity_id for each in list_identities(connection, owner)}
    ids |= {each.passkey_id for each in list_passkeys(connection, owner)}
    if ids <= {removed}:
        raise Conflict(LAST_METHOD)


def find_login(connection: Connection, owner: str) -> tuple[UserAccount, str] | None:
    """Return an account with its password hash; None if there is none."""
    row = read_account(connection, accounts.c.user_id == owner)
    return (to_account(row, owner), row.password_hash) if row is not None else None


def list_passkeys(connection: Connection, owner: str) -> Sequence[Passkey]:
    """Return the passkeys of an account, oldest first."""
    query = select(passkeys).where(passkeys.c.owner == owner).order_by(passkeys.c.created_at)
    return [to_passkey(row) for row in connection.execute(query)]


def to_passkey(row: Row[Any]) -> Passkey:
    """Convert a row to a passkey."""
    return Passkey(**{field: row._mapping[field] for field in Passkey.__slots__})


def find_passkey(connection: Connection, credential_id: bytes) -> Passkey | None:
    """Return the passkey of a credential; None if it is unknown."""
    which = passkeys.c.credential_hash == hash_secret(credential_id.hex())
    row = connection.execute(select(passkeys).where(which)).first()
    return to_passkey(row) if row is not None else None


def insert_passkey(connection: Connection, new: Passkey) -> None:
    """Store a passkey.

    Raises:
        NotFound: There is no such account.
        Conflict: The credential is registered already, or the account has too many.
    """
    to_account(read_account(connection, accounts.c.user_id == new.owner), new.owner)
    if len(list_passkeys(connection, new.owner)) >= MAX_PASSKEYS:
        raise Conflict(f"at most {MAX_PASSKEYS} passkeys can be kept; remove some first")
    row = {**asdict(new), "name": to_key(new.name), "credential_hash": hash_secret(new.credential_id.hex())}
    insert_or_ignore(connection, passkeys, row)
    found = find_passkey(connection, new.credential_id)
    if found is None or found.passkey_id != new.passkey_id:
        raise Conflict("this passkey is registered already")


def rename_passkey(connection: Connection, owner: str, passkey_id: str, name: str) -> Passkey:
    """Rename a passkey of an account and return it, or raise `NotFound`."""
    which = (passkeys.c.owner == owner, passkeys.c.passkey_id == passkey_id)
    connection.execute(update(passkeys).where(*which), {"name": to_key(name)})
    row = connection.execute(select(passkeys).where(*which)).first()
    if row is None:
        raise NotFound(f"no passkey {passkey_id!r}")
    return to_passkey(row)


def delete_passkey(connection: Connection, owner: str, passkey_id: str) -> None:
    """Remove a passkey of an account.

    Raises:
        NotFound: There is none.
        Conflict: The account has no other way to log in.
    """
    require_other_method(connection, owner, passkey_id)
    which = (passkeys.c.owner == owner, passkeys.c.passkey_id == passkey_id)
    if not connection.execute(delete(passkeys).where(*which)).rowcount:
        raise NotFound(f"no passkey {passkey_id!r}")


def record_passkey_use(
    connection: Connection, used: Passkey, sign_count: int, is_backed_up: bool, now: datetime
) -> None:
    """Store the counter and the state of a passkey after a login.

    Raises:
        Conflict: Another login with the same counter, or a higher one, was faster.
    """
    which = passkeys.c.passkey_id == used.passkey_id
    is_new = passkeys.c.sign_count < sign_count if sign_count else passkeys.c.sign_count == 0
    changed = {"sign_count": sign_count, "is_backed_up": is_backed_up, "last_used_at": now}
    if not connection.execute(update(passkeys).where(which, is_new), changed).rowcount:
        raise Conflict("this passkey was used a moment ago; try again")
