"""Accounts and the links with which people get one, or set their password again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from secrets import token_hex

from deerflow.accounts import queries as rows
from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.logins import Passwords
from deerflow.accounts.model import (
    AccountLink,
    AccountRole,
    UserAccount,
    clean_email,
    clean_password,
    hash_secret,
    new_secret,
    throttle_subject,
)
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.identity import Principal, new_id
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.audit import AuditEvent, AuditKind, recorded, write_recorded

SETUP_PATH, INVITATION_PATH, RESET_PATH = "/setup", "/invitation", "/reset-password"
"""Addresses of the page at which links are used. The secret is in the fragment, which browsers do not send."""
ALREADY_SET_UP = "there is an account already; log in"


@dataclass(frozen=True, slots=True)
class CreatedLink:
    """Link with the path that contains its secret, which is returned only once."""

    link: AccountLink
    path: str


@dataclass(frozen=True, slots=True)
class Accounts:
    """Accounts of the server, for administrators and for people with a link."""

    database: Database
    passwords: Passwords
    authenticator: Authenticator
    now: Callable[[], datetime] = partial(datetime.now, UTC)
    _setup_hashes: set[str] = field(default_factory=set)
    """Hashes of the set-up links of this process, which end with it."""

    async def exist(self) -> bool:
        """Return whether there is any account."""
        return await self.database.read(rows.has_accounts)

    async def create_setup_path(self) -> str:
        """Return the path of a link with which the first account is made, until there is one or this process ends.

        Raises:
            Conflict: There is an account already.
        """
        if await self.exist():
            raise Conflict(ALREADY_SET_UP)
        secret = new_secret()
        self._setup_hashes.add(hash_secret(secret))
        return f"{SETUP_PATH}#{secret}"

    async def set_up(self, token: str, email: str, password: str) -> tuple[UserAccount, str]:
        """Create the first account with the secret of a set-up link; return it with its password hash.

        Raises:
            NotFound: The link is not valid.
            Conflict: There is an account already.
        """
        if hash_secret(token) not in self._setup_hashes:
            raise NotFound(rows.LINK_NOT_FOUND)
        hashed = await self.passwords.hash(clean_password(password))
        return await self._add_first(clean_email(email), hashed), hashed

    async def _add_first(self, email: str, hashed: str) -> UserAccount:
        change = partial(rows.add_first_account, email=email, password_hash=hashed, now=self.now())
        account = await self.database.write(partial(write_recorded, change=change, describe=describe_creation))
        self._setup_hashes.clear()
        await self.authenticator.apply_changes()
        return account

    async def add(self, email: str, password: str, role: AccountRole) -> UserAccount:
        """Create an account. The first is an administrator and owns the data of the local user.

        Raises:
            Conflict: The address has an account.
            InvalidRequest: The address or the password is not valid.
        """
        email, hashed = clean_email(email), await self.passwords.hash(clean_password(password))
        if not await self.exist():
            return await self._add_first(email, hashed)
        insert = partial(rows.insert_account, owner=new_user_id(), email=email, password_hash=hashed, role=role)
        change = partial(insert, now=self.now())
        return await self.database.write(partial(write_recorded, change=change, describe=describe_creation))

    async def list(self) -> Sequence[UserAccount]:
        """Return all accounts, oldest first."""
        return await self.database.read(rows.list_accounts)

    async def find(self, user_id: str) -> UserAccount:
        """Return an account, or raise `NotFound`."""
        return await self.database.read(partial(rows.find_account, owner=user_id))

    async def find_by_email(self, email: str) -> UserAccount:
        """Return the account of an e-mail address, or raise `NotFound`."""
        return await self.database.read(partial(rows.find_account_by_email, email=email))

    async def change(
        self,
        user_id: str,
        role: AccountRole | None = None,
        is_active: bool | None = None,
        by: Principal | None = None,
    ) -> UserAccount:
        """Change role or state of an account. The audit log names who did it; None: the terminal.

        Raises:
            NotFound: There is no such account.
            Conflict: No active administrator would be left.
        """
        change = partial(rows.change_account, owner=user_id, role=role, is_active=is_active)
        state = {} if is_active is None else {"state": "active" if is_active else "disabled"}
        event = make_event("account.changed", by, user_id, **({"role": role} if role else {}), **state)
        changed = await self.database.write(recorded(change, event))
        await self.authenticator.apply_changes()
        return changed

    async def delete(self, user_id: str, process: str, by: Principal | None = None) -> None:
        """Delete an account with its sessions and tokens, and note that `process` deletes what the person has.

        Raises:
            NotFound: There is no such account.
            Conflict: No active administrator would be left.
        """
        subject = throttle_subject((await self.database.read(partial(rows.find_account, owner=user_id))).email)
        change = partial(rows.delete_account, owner=user_id, process=process, subject=subject, now=self.now())
        await self.database.write(recorded(change, make_event("account.deleted", by, user_id)))
        await self.authenticator.apply_changes()

    async def invite(self, email: str | None, role: AccountRole, by: Principal | None = None) -> CreatedLink:
        """Create an invitation, for one address, or for anyone who has the link.

        Raises:
            Conflict: There is no account yet, or there are too many links.
        """
        if not await self.exist():
            raise Conflict("create the first account before you invite others")
        address = clean_email(email) if email else None
        return await self._create_link(None, address, role, INVITATION_PATH, by)

    async def create_reset(self, user_id: str, by: Principal | None = None) -> CreatedLink:
        """Create a link with which the password of an account is set again, or raise `NotFound`."""
        account = await self.database.read(partial(rows.find_account, owner=user_id))
        return await self._create_link(user_id, account.email, account.role, RESET_PATH, by)

    async def _create_link(
        self, user_id: str | None, email: str | None, role: AccountRole, path: str, by: Principal | None
    ) -> CreatedLink:
        now, secret = self.now(), new_secret()
        expires_at = now + timedelta(hours=self.authenticator.settings.current.link_hours)
        link = AccountLink(new_id(), user_id, email, role, now, expires_at)
        kind: AuditKind = "account.invited" if user_id is None else "account.reset_link_created"
        event = make_event(kind, by, user_id, link=link.link_id, role=role)
        await self.database.write(recorded(partial(rows.insert_link, new=link, token_hash=hash_secret(secret)), event))
        return CreatedLink(link, f"{path}#{secret}")

    async def list_invitations(self) -> Sequence[AccountLink]:
        """Return the invitations that can still be used, oldest first."""
        return await self.database.read(partial(rows.list_invitations, now=self.now()))

    async def withdraw_invitation(self, link_id: str, by: Principal | None = None) -> None:
        """Withdraw an invitation, or raise `NotFound`."""
        event = make_event("account.invitation_withdrawn", by, None, link=link_id)
        await self.database.write(recorded(partial(rows.delete_invitation, link_id=link_id), event))

    async def find_link(self, token: str) -> AccountLink:
        """Return the valid link with this secret, or raise `NotFound`."""
        return await self.database.read(partial(rows.find_link, token_hash=hash_secret(token), now=self.now()))

    async def accept_invitation(self, token: str, email: str | None, password: str) -> tuple[UserAccount, str]:
        """Create the account of an invitation, which is used up; return it with its password hash.

        Raises:
            NotFound: The invitation is not valid.
            InvalidRequest: The address or the password is not valid.
            Conflict: The address has an account.
        """
        link = await self.find_link(token)  # before the password is hashed, which is much work
        wanted = email or link.email
        if not wanted:
            raise InvalidRequest("enter an e-mail address")
        hashed = await self.passwords.hash(clean_password(password))
        change = partial(rows.redeem_invitation, owner=new_user_id(), token_hash=hash_secret(token), now=self.now())
        email = clean_email(wanted)
        redeem = partial(change, email=email, password_hash=hashed)
        describe = partial(describe_creation, link_id=link.link_id)
        return await self.database.write(partial(write_recorded, change=redeem, describe=describe)), hashed

    async def reset_password(self, token: str, password: str) -> tuple[UserAccount, str]:
        """Set the password of a reset link, which is used up; return the account with its new password hash.

        Raises:
            NotFound: The link is not valid.
            InvalidRequest: The password is not valid.
        """
        link = await self.find_link(token)
        hashed = await self.passwords.hash(clean_password(password))
        change = partial(rows.redeem_reset, token_hash=hash_secret(token), password_hash=hashed, now=self.now())
        user = Principal(link.user_id) if link.user_id else None
        event = make_event("account.password_changed", user, link.user_id, link=link.link_id)
        account = await self.database.write(recorded(change, event))
        await self.authenticator.apply_changes()
        return account, hashed


def make_event(kind: AuditKind, by: Principal | None, subject: str | None, **details: str) -> AuditEvent:
    """Return an event about an account."""
    return AuditEvent(kind, by.user_id if by else None, subject, details=details)


def describe_creation(account: UserAccount, link_id: str | None = None) -> Sequence[AuditEvent]:
    """Return the event of a new account, which a person has made with a link, or an operator in the terminal."""
    by = Principal(account.user_id) if link_id else None
    link = {"link": link_id} if link_id else {}
    return [make_event("account.created", by, account.user_id, role=account.role, **link)]


def new_user_id() -> str:
    """Return the id of a new account, which says nothing about the person or the time."""
    return token_hex(16)
