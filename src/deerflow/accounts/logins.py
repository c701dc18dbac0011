"""Logins with passwords, sessions, API tokens and password changes of accounts.

Few password hashes are computed at a time: each takes 19 MiB and a core for a while.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from deerflow.accounts import queries as rows
from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.model import (
    MAX_PASSWORD_CHARS,
    TOKEN_PREFIX,
    ApiToken,
    ClientInfo,
    Credential,
    LoginSession,
    TokenScope,
    UserAccount,
    clean_password,
    hash_secret,
    new_secret,
    normalize_password,
    throttle_subject,
)
from deerflow.domain.errors import Forbidden, InvalidRequest, LoginFailed, TooManyAttempts
from deerflow.domain.identity import Principal, new_id
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.audit import AuditEvent, AuditKind, recorded
from deerflow.persistence.queries.events import do_nothing

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")
MEMORY_KIB, TIME_COST, PARALLELISM = 19 * 1024, 2, 1
"""Minimum of the OWASP cheat sheet on password storage."""
SLOTS, MAX_WAITING = 2, 20
"""Hashes that are computed at the same time, and requests that may wait for them."""
RETRY_S = 2
WINDOW = timedelta(minutes=15)
MAX_FAILURES, MAX_ADDRESS_FAILURES = 10, 50
"""Failed logins of an account, and from an address, within `WINDOW`."""
LOGIN_FAILED = "the e-mail address or the password is wrong"
MAX_CLIENT_CHARS = 200


@dataclass(frozen=True, slots=True)
class NewSession:
    """Session with its secret, which is returned only once."""

    session: LoginSession
    account: UserAccount
    secret: str


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """API token with its secret, which is returned only once."""

    token: ApiToken
    secret: str


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    """Result of a check; `new_hash` replaces a hash that was made with other parameters."""

    is_correct: bool
    new_hash: str | None = None


class Passwords:
    """Hashes and checks passwords in threads."""

    def __init__(self, slots: int = SLOTS, max_waiting: int = MAX_WAITING) -> None:
        self._free = asyncio.Semaphore(slots)
        self._max_waiting = max_waiting
        self._waiting = 0
        self._hasher: PasswordHasher | None = None
        self._decoy = ""

    async def hash(self, password: str) -> str:
        """Return the hash of a password.

        Raises:
            TooManyAttempts: Too many requests are waiting.
        """
        return await self._run(lambda: self._load().hash(normalize_password(password)))

    async def verify(self, stored: str | None, password: str) -> PasswordCheck:
        """Compare a password with a stored hash. Without one, do the same work and fail.

        Raises:
            TooManyAttempts: Too many requests are waiting.
        """
        return await self._run(lambda: self._verify(stored, normalize_password(password)))

    @property
    def is_busy(self) -> bool:
        """True if all slots are in use."""
        return self._free.locked()

    async def _run(self, work: Callable[[], T]) -> T:
        if self.is_busy and self._waiting >= self._max_waiting:
            raise TooManyAttempts("too many logins at the same time; try again in a moment", RETRY_S)
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        task = asyncio.create_task(asyncio.to_thread(work))
        task.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(task)  # a thread cannot be stopped: it keeps its slot until it has ended

    def _load(self) -> "PasswordHasher":
        from argon2 import PasswordHasher  # with the first password, not with the server

        if self._hasher is None:
            hasher = PasswordHasher(TIME_COST, MEMORY_KIB, PARALLELISM)
            self._decoy = hasher.hash(new_secret())
            self._hasher = hasher
        return self._hasher

    def _verify(self, stored: str | None, password: str) -> PasswordCheck:
        from argon2.exceptions import InvalidHashError, VerificationError

        hasher = self._load()
        try:
            hasher.verify(stored if is_hash(stored) else self._decoy, password)
        except (VerificationError, InvalidHashError):
            return PasswordCheck(is_correct=False)
        if not is_hash(stored):
            return PasswordCheck(is_correct=False)
        return PasswordCheck(True, hasher.hash(password) if hasher.check_needs_rehash(stored) else None)


def is_hash(stored: str | None) -> TypeGuard[str]:
    """Return whether an account has a password, and not only other ways to log in."""
    return stored is not None and stored.startswith("$")


@dataclass(frozen=True, slots=True)
class Logins:
    """Logins of people, and the tokens of their programs."""

    database: Database
    passwords: Passwords
    authenticator: Authenticator
    now: Callable[[], datetime] = partial(datetime.now, UTC)

    async def log_in(
        self, email: str, password: str, client: ClientInfo, replaced_secret: str | None = None
    ) -> NewSession:
        """Check a password and create a session, in place of the one the browser had.

        Raises:
            LoginFailed: The address or the password is wrong, or the account is not active.
            TooManyAttempts: There were too many failed logins, or there are too many at the same time.
        """
        account, stored = await self._check_password(email, password, client, "account.login")
        return await self.open_session(account, stored, client, replaced_secret)

    async def open_session(
        self, account: UserAccount, password_hash: str, client: ClientInfo, replaced_secret: str | None = None
    ) -> NewSession:
        """Create a session of an account whose password was checked."""
        now, secret = self.now(), new_secret()
        expires_at = now + timedelta(days=self.authenticator.settings.current.session_days)
        name = client.client[:MAX_CLIENT_CHARS]
        session = LoginSession(new_id(), account.user_id, client.address, name, now, now, expires_at)
        change = partial(rows.insert_session, new=session, token_hash=hash_secret(secret), password_hash=password_hash)
        replaced = hash_secret(replaced_secret) if replaced_secret else None
        event = make_event("account.login", account.user_id, address=client.address, session=session.session_id)
        await self.database.write(recorded(partial(change, replaced=replaced), event))
        if replaced is not None:
            await self.authenticator.apply_changes()
        return NewSession(session, account, secret)

    async def _check_password(
        self, email: str, password: str, client: ClientInfo, purpose: AuditKind
    ) -> tuple[UserAccount, str]:
        """Return the account and its password hash. Unknown names cost as much as known ones."""
        now, limits = self.now(), throttle_limits(email, client.address)
        reserve = partial(rows.reserve_failures, limits=limits, now=now, window=WINDOW)
        free_at = await self.database.write(reserve)
        if free_at is not None:
            raise TooManyAttempts("too many failed logins; try again later", (free_at - now).total_seconds())
        try:
            found = await self.database.read(partial(rows.find_password, email=email))
            account, stored = found if found is not None else (None, None)
            check = await self.passwords.verify(stored, password[: MAX_PASSWORD_CHARS + 1])
        except TooManyAttempts:
            await self.database.write(partial(rows.release_failures, subjects=limits, reserved_at=now))
            raise
        if account is None or stored is None or not check.is_correct or not account.is_active:
            # The address that was entered is not recorded: people enter passwords by mistake.
            known = account.user_id if account is not None else None
            failure = AuditEvent(purpose, None, known, "failure", {"address": client.address})
            await self.database.write(recorded(do_nothing, failure))
            raise LoginFailed(LOGIN_FAILED)
        await self.database.write(partial(rows.release_failures, subjects=limits, reserved_at=now))
        if check.new_hash is not None:
            replace_hash = partial(rows.replace_hash, owner=account.user_id, old=stored, new=check.new_hash)
            await self.database.write(replace_hash)
            stored = check.new_hash
        return account, stored

    async def record_failure(self, method: str, client: ClientInfo, **details: str) -> None:
        """Record a failed login without a password; from one network only some at a time, as they are not throttled."""
        limits = {hash_secret(f"{method}\0{to_network(client.address)}"): MAX_ADDRESS_FAILURES}
        reserve = partial(rows.reserve_failures, limits=limits, now=self.now(), window=WINDOW)
        if await self.database.write(reserve) is not None:
            return
        details |= {"method": method, "address": client.address}
        failure = AuditEvent("account.login", None, None, "failure", details)
        await self.database.write(recorded(do_nothing, failure))

    async def change_password(self, credential: Credential, old: str, new: str, client: ClientInfo) -> None:
        """Change the password of the user of a session; all other sessions of the account end.

        Raises:
            LoginFailed: The old password is wrong.
            InvalidRequest: The new password is too short or too long.
            TooManyAttempts: There were too many failed logins.
        """
        owner, cleaned = credential.principal.user_id, clean_password(new)
        account = await self.database.read(partial(rows.find_account, owner=owner))
        await self._check_password(account.email, old, client, "account.password_changed")
        hashed = await self.passwords.hash(cleaned)
        change = partial(rows.set_password, owner=owner, password_hash=hashed)
        event = make_event("account.password_changed", owner, address=client.address)
        await self.database.write(recorded(partial(change, keep_session=credential.credential_id), event))
        await self.authenticator.apply_changes()

    async def find_account(self, who: Principal) -> UserAccount:
        """Return the account of a user, or raise `NotFound`."""
        return await self.database.read(partial(rows.find_account, owner=who.user_id))

    async def list_sessions(self, who: Principal) -> Sequence[LoginSession]:
        """Return the sessions of a user, last used first."""
        idle = timedelta(hours=self.authenticator.settings.current.session_idle_hours)
        return await self.database.read(partial(rows.list_sessions, owner=who.user_id, now=self.now(), idle=idle))

    async def end_session(self, who: Principal, session_id: str) -> None:
        """End a session of a user, or raise `NotFound`."""
        change = partial(rows.delete_session, owner=who.user_id, session_id=session_id)
        await self.database.write(recorded(change, make_event("account.logout", who.user_id, session=session_id)))
        await self.authenticator.apply_changes()

    async def end_all_sessions(self, who: Principal) -> None:
        """End all sessions of a user."""
        change = partial(rows.delete_sessions, owner=who.user_id)
        await self.database.write(recorded(change, make_event("account.logout", who.user_id, session="all")))
        await self.authenticator.apply_changes()

    async def list_tokens(self, who: Principal) -> Sequence[ApiToken]:
        """Return the API tokens of a user, oldest first."""
        return await self.database.read(partial(rows.list_tokens, owner=who.user_id))

    async def create_token(self, who: Principal, name: str, scope: TokenScope, days: int | None) -> CreatedToken:
        """Create an API token that expires after `days`; None: not before it is revoked.

        Raises:
            Forbidden: The scope is `admin` and the user is no administrator.
            InvalidRequest: The name is empty.
            Conflict: The user has too many tokens.
        """
        if scope == "admin" and not who.is_admin:
            raise Forbidden("only an administrator can create a token with the scope admin")
        cleaned = name.strip()
        if not cleaned or not cleaned.isprintable():
            raise InvalidRequest("a token needs a name")
        now, secret = self.now(), f"{TOKEN_PREFIX}{new_secret()}"
        expires_at = now + timedelta(days=days) if days else None
        token = ApiToken(new_id(), who.user_id, cleaned, scope, now, None, expires_at)
        change = partial(rows.insert_token, new=token, token_hash=hash_secret(secret))
        event = make_event("account.token_created", who.user_id, token=token.token_id, scope=scope)
        await self.database.write(recorded(change, event))
        return CreatedToken(token, secret)

    async def revoke_token(self, who: Principal, token_id: str) -> None:
        """Revoke an API token of a user, or raise `NotFound`."""
        change = partial(rows.delete_token, owner=who.user_id, token_id=token_id)
        await self.database.write(recorded(change, make_event("account.token_revoked", who.user_id, token=token_id)))
        await self.authenticator.apply_changes()


def make_event(kind: AuditKind, user_id: str, **details: str) -> AuditEvent:
    """Return the event of something that a user did with their own account."""
    return AuditEvent(kind, user_id, user_id, details=details)


def throttle_limits(email: str, address: str) -> Mapping[str, int]:
    """Return the subjects for which failed logins are counted, by hash, each with its limit."""
    return {
        throttle_subject(email): MAX_FAILURES,
        hash_secret(f"address\0{to_network(address)}"): MAX_ADDRESS_FAILURES,
    }


def to_network(address: str) -> str:
    """Return an address as it is counted: one customer has a whole /64 network of IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(parsed.ipv4_mapped or ip_network(f"{parsed}/64", strict=False))
