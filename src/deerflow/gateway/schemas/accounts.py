"""Bodies and responses of the routes of accounts."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from deerflow.accounts.accounts import CreatedLink
from deerflow.accounts.logins import CreatedToken
from deerflow.accounts.model import (
    MAX_EMAIL_CHARS,
    MAX_PASSWORD_CHARS,
    MIN_PASSWORD_CHARS,
    AccountLink,
    AccountRole,
    LinkKind,
    TokenScope,
    UserAccount,
)
from deerflow.accounts.quotas import Quota, QuotaUsage
from deerflow.gateway.examples import TOKEN, with_examples
from deerflow.models.usage import to_amount

Email = Annotated[str, Field(min_length=1, max_length=MAX_EMAIL_CHARS)]
Password = Annotated[SecretStr, Field(min_length=1, max_length=MAX_PASSWORD_CHARS)]
NewPassword = Annotated[SecretStr, Field(min_length=MIN_PASSWORD_CHARS, max_length=MAX_PASSWORD_CHARS)]
LinkToken = Annotated[SecretStr, Field(min_length=1, max_length=128)]
EMAIL, PASSWORD = "you@example.com", "a long password"


class SetupStatus(BaseModel):
    """State of the accounts of the server."""

    needs_setup: bool
    """There is no account yet, and a login is required."""
    login_required: bool
    registration_enabled: Literal[False] = False


class Initialize(BaseModel):
    """First account, with the secret of a set-up link."""

    model_config = ConfigDict(json_schema_extra=with_examples({"token": TOKEN, "email": EMAIL, "password": PASSWORD}))

    token: LinkToken
    email: Email
    password: NewPassword


class LoginBody(BaseModel):
    """E-mail address and password."""

    model_config = ConfigDict(json_schema_extra=with_examples({"email": EMAIL, "password": PASSWORD}))

    email: Email
    password: Password
    remember_me: bool = True
    """False: the browser forgets the session when it is closed."""


class CheckLink(BaseModel):
    """Secret of an invitation or of a link for a new password."""

    model_config = ConfigDict(json_schema_extra=with_examples({"token": TOKEN}))

    token: LinkToken


class AcceptInvitation(Initialize):
    """New account, with the secret of an invitation."""


class ResetPassword(BaseModel):
    """New password, with the secret of a reset link."""

    model_config = ConfigDict(json_schema_extra=with_examples({"token": TOKEN, "password": PASSWORD}))

    token: LinkToken
    password: NewPassword


class ChangePassword(BaseModel):
    """Current and new password."""

    model_config = ConfigDict(
        json_schema_extra=with_examples({"current_password": PASSWORD, "new_password": "another horse battery"})
    )

    current_password: Password
    new_password: NewPassword


class CreateToken(BaseModel):
    """Name, scope and validity of a new API token. Each scope includes those before it."""

    model_config = ConfigDict(
        json_schema_extra=with_examples({"name": "laptop", "scope": "run", "expires_in_days": 90})
    )

    name: Annotated[str, Field(min_length=1, max_length=100)]
    scope: TokenScope = "run"
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None


class CreateInvitation(BaseModel):
    """Address and role of a person to invite."""

    model_config = ConfigDict(json_schema_extra=with_examples({"email": "bob@example.com", "role": "user"}))

    email: Email | None = None
    """None: whoever has the link chooses an address."""
    role: AccountRole = "user"


class ChangeUser(BaseModel):
    """New role and state of an account."""

    model_config = ConfigDict(json_schema_extra=with_examples({"role": "user", "is_active": True}))

    role: AccountRole | None = None
    is_active: bool | None = None


class FromAccounts(BaseModel):
    """Base of responses that are read from data of accounts."""

    model_config = ConfigDict(from_attributes=True)


class Me(BaseModel):
    """Current user."""

    id: str
    email: str | None
    system_role: AccountRole
    login_required: bool
    session_id: str | None = None
    needs_setup: Literal[False] = False
    oauth_provider: None = None

    @classmethod
    def from_domain(cls, account: UserAccount, session_id: str | None) -> "Me":
        return cls(
            id=account.user_id,
            email=account.email,
            system_role=account.role,
            login_required=True,
            session_id=session_id,
        )


class OpenedSession(BaseModel):
    """User that has logged in; the session is in a cookie."""

    user: Me
    expires_in: int
    needs_setup: Literal[False] = False


class UserInfo(FromAccounts):
    """Account, for administrators."""

    user_id: str
    email: str
    role: AccountRole
    is_active: bool
    created_at: datetime
    last_login_at: datetime | None


class SessionInfo(FromAccounts):
    """Login of a browser."""

    session_id: str
    address: str
    client: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


class TokenInfo(FromAccounts):
    """API token without its secret."""

    token_id: str
    name: str
    scope: TokenScope
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None


class NewToken(BaseModel):
    """API token with its secret, which cannot be retrieved again."""

    token: str
    info: TokenInfo

    @classmethod
    def from_domain(cls, created: CreatedToken) -> "NewToken":
        return cls(token=created.secret, info=TokenInfo.model_validate(created.token))


class LinkInfo(BaseModel):
    """Valid link, for those who have it."""

    kind: LinkKind
    email: str | None
    expires_at: datetime


class InvitationInfo(BaseModel):
    """Invitation without its secret."""

    invitation_id: str
    email: str | None
    role: AccountRole
    created_at: datetime
    expires_at: datetime

    @classmethod
    def from_domain(cls, link: AccountLink) -> "InvitationInfo":
        return cls(
            invitation_id=link.link_id,
            email=link.email,
            role=link.role,
            created_at=link.created_at,
            expires_at=link.expires_at,
        )


class NewLink(BaseModel):
    """Link with its secret in `path`, which cannot be retrieved again."""

    path: str
    expires_at: datetime

    @classmethod
    def from_domain(cls, created: CreatedLink) -> "NewLink":
        return cls(path=created.path, expires_at=created.link.expires_at)


class SetupLink(BaseModel):
    """Path of a set-up link. It is valid until it is used or the server stops."""

    path: str


Tokens = Annotated[int, Field(ge=1000, le=10**15)]


class QuotaLimits(BaseModel):
    """Limits that are set for a person. Those that are missing are configured; null is none."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=with_examples({"tokens_per_day": 2_000_000, "concurrent_runs": None})
    )

    storage_mb: Annotated[int, Field(ge=1, le=10**9)] | None = None
    concurrent_runs: Annotated[int, Field(ge=1, le=10_000)] | None = None
    requests_per_second: Annotated[float, Field(gt=0, le=100_000)] | None = None
    tokens_per_day: Tokens | None = None
    cost_per_day: Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?$")] | None = None

    def get_changes(self) -> dict[str, object]:
        """Return the limits that are set."""
        return self.model_dump(exclude_unset=True)


class QuotaInfo(BaseModel):
    """Limits of a person; null for none. Days are those of UTC."""

    storage_mb: int | None
    concurrent_runs: int | None
    requests_per_second: float | None
    tokens_per_day: int | None
    cost_per_day: str | None
    currency: str

    @classmethod
    def from_domain(cls, quota: Quota) -> Self:
        """Return the limits."""
        cost = None if quota.cost_per_day is None else f"{quota.cost_per_day:f}"
        return cls(**{**asdict(quota), "cost_per_day": cost})


class UserQuota(BaseModel):
    """Limits that are set for a person, and those in effect."""

    changed: QuotaLimits
    effective: QuotaInfo


class MyQuota(BaseModel):
    """Limits of the current user, and what is used of them now. Reserved tokens and money count as used."""

    limits: QuotaInfo
    storage_bytes: int
    runs: int
    """Threads with an active run."""
    tokens_today: int
    """Only counted if there is a limit of tokens or money."""
    cost_today: str
    resets_at: datetime

    @classmethod
    def from_domain(cls, usage: QuotaUsage) -> Self:
        """Return the limits and what is used of them."""
        return cls(
            limits=QuotaInfo.from_domain(usage.quota),
            storage_bytes=usage.storage_bytes,
            runs=usage.runs,
            tokens_today=usage.tokens,
            cost_today=f"{to_amount(usage.cost):f}",
            resets_at=usage.resets_at,
        )
