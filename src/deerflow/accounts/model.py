"""Accounts, sessions, tokens, links and login methods as plain data, and the form of their secrets."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from secrets import token_urlsafe
from typing import Literal

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import Principal

AccountRole = Literal["admin", "user"]
TokenScope = Literal["read", "run", "admin"]
"""Rights of an API token; each includes those before it."""
CredentialKind = Literal["session", "token"]
LinkKind = Literal["invitation", "reset"]
AttemptKind = Literal["sso", "passkey", "new-passkey"]

SECRET_BYTES = 32
TOKEN_PREFIX = "df_"
SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
API_TOKEN = re.compile(f"{TOKEN_PREFIX}{SECRET.pattern}")
MIN_PASSWORD_CHARS, MAX_PASSWORD_CHARS = 8, 1024
MAX_EMAIL_CHARS = 254
EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


@dataclass(frozen=True, slots=True)
class UserAccount:
    """Account of a person, without its password."""

    user_id: str
    email: str
    role: AccountRole
    is_active: bool
    created_at: datetime
    last_login_at: datetime | None = None

    @property
    def is_admin(self) -> bool:
        """True if the person may manage the server."""
        return self.role == "admin"


@dataclass(frozen=True, slots=True)
class LoginSession:
    """Login of a browser, without its secret."""

    session_id: str
    owner: str
    address: str
    client: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ApiToken:
    """Token of a program, without its secret."""

    token_id: str
    owner: str
    name: str
    scope: TokenScope
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AccountLink:
    """Link that is good for one use: an invitation, or a new password for the account `user_id`."""

    link_id: str
    user_id: str | None
    email: str | None
    role: AccountRole
    created_at: datetime
    expires_at: datetime

    @property
    def kind(self) -> LinkKind:
        """The purpose of the link."""
        return "invitation" if self.user_id is None else "reset"


@dataclass(frozen=True, slots=True)
class Identity:
    """Account of a person at an OpenID provider. Issuer and subject identify it; the address is only shown."""

    identity_id: str
    owner: str
    issuer: str
    subject: str
    email: str
    created_at: datetime
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Passkey:
    """WebAuthn credential of an account."""

    passkey_id: str
    owner: str
    credential_id: bytes
    public_key: bytes
    sign_count: int
    is_synced: bool
    """True if the credential may be copied to other devices of the person."""
    is_backed_up: bool
    name: str
    created_at: datetime
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """Login, or registration of a way to log in, that a browser has begun. It is used once."""

    kind: AttemptKind
    user_id: str | None
    """User who has begun it; None for a login."""
    network: str
    data: Mapping[str, str]
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Credential:
    """Valid session or API token, and the rights it gives."""

    kind: CredentialKind
    credential_id: str
    principal: Principal
    scope: TokenScope = "admin"
    """Sessions have all rights of their user."""

    @property
    def may_write(self) -> bool:
        """True if the credential may change something."""
        return self.scope != "read"

    def has_same_rights(self, other: "Credential | None") -> bool:
        """Return whether another credential is of the same user and gives the same rights."""
        return other is not None and self == other and self.principal.is_admin == other.principal.is_admin


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Origin of a request: the address, and the program as it names itself."""

    address: str
    client: str = ""


def new_secret() -> str:
    """Return a random secret of 256 bits."""
    return token_urlsafe(SECRET_BYTES)


def hash_secret(secret: str) -> str:
    """Return the stored hash of a secret. Secrets are random, so one round of SHA-256 is enough."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def clean_email(email: str) -> str:
    """Return an e-mail address without white space around it.

    Raises:
        InvalidRequest: It is not an address.
    """
    cleaned = unicodedata.normalize("NFKC", email).strip()
    if len(cleaned) > MAX_EMAIL_CHARS or not cleaned.isprintable() or not EMAIL.fullmatch(cleaned):
        raise InvalidRequest("enter an e-mail address, such as name@example.com")
    return cleaned


def to_email_key(email: str) -> str:
    """Return an e-mail address as it is compared: without white space and capital letters."""
    return unicodedata.normalize("NFKC", email).strip().casefold()


def throttle_subject(email: str) -> str:
    """Return the hash by which failed logins of an account are counted, whether there is one or not."""
    return hash_secret(f"account\0{to_email_key(email)}")


def clean_password(password: str) -> str:
    """Return a new password in the form in which it is hashed.

    Raises:
        InvalidRequest: It is too short or too long.
    """
    if not MIN_PASSWORD_CHARS <= len(password) <= MAX_PASSWORD_CHARS:
        raise InvalidRequest(f"a password has {MIN_PASSWORD_CHARS} to {MAX_PASSWORD_CHARS} characters")
    return normalize_password(password)


def normalize_password(password: str) -> str:
    """Return a password in one form of Unicode: keyboards and systems produce different ones."""
    return unicodedata.normalize("NFC", password)
