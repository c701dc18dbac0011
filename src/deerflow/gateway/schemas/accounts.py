"""Bodies and responses of the routes of accounts."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.types import JsonValue

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
from deerflow.gateway.examples import TOKEN, with_examples

Email = Annotated[str, Field(min_length=1, max_length=MAX_EMAIL_CHARS)]
Password = Annotated[SecretStr, Field(min_length=1, max_length=MAX_PASSWORD_CHARS)]
NewPassword = Annotated[SecretStr, Field(min_length=MIN_PASSWORD_CHARS, max_length=MAX_PASSWORD_CHARS)]
LinkToken = Annotated[SecretStr, Field(min_length=1, max_length=128)]
CredentialJson = Annotated[dict[str, JsonValue], Field(max_length=20)]
EMAIL, PASSWORD = "you@example.com", "a long password"
PASSKEY: dict[str, JsonValue] = {
    "id": "AQ",
    "rawId": "AQ",
    "type": "public-key",
    "response": {"clientDataJSON": "e30", "authenticatorData": "AA", "signature": "AA"},
}


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


class FinishPasskey(BaseModel):
    """Passkey that a browser has created, as `PublicKeyCredential.toJSON()` returns it, and its name."""

    model_config = ConfigDict(json_schema_extra=with_examples({"name": "laptop", "credential": PASSKEY}))

    name: Annotated[str, Field(min_length=1, max_length=100)]
    credential: CredentialJson


class PasskeyLogin(BaseModel):
    """Answer of a passkey, as `PublicKeyCredential.toJSON()` returns it."""

    model_config = ConfigDict(json_schema_extra=with_examples({"credential": PASSKEY}))

    credential: CredentialJson
    remember_me: bool = True
    """False: the browser forgets the session when it is closed."""


class RenamePasskey(BaseModel):
    """New name of a passkey."""

    model_config = ConfigDict(json_schema_extra=with_examples({"name": "telephone"}))

    name: Annotated[str, Field(min_length=1, max_length=100)]


class LoginProvider(BaseModel):
    """OpenID provider at which people log in."""

    name: str
    label: str


class LoginProviders(BaseModel):
    """Ways to log in besides a password."""

    providers: list[LoginProvider]
    passkeys: bool


class StartedLink(BaseModel):
    """URL of a provider; open it in the browser that asked for it."""

    url: str


class PasskeyOptions(BaseModel):
    """Options for `navigator.credentials`, in the form of `parseCreationOptionsFromJSON` and its sibling."""

    options: dict[str, JsonValue]


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


class IdentityInfo(FromAccounts):
    """Account of a person at an OpenID provider."""

    identity_id: str
    issuer: str
    email: str
    created_at: datetime
    last_used_at: datetime | None


class PasskeyInfo(FromAccounts):
    """Passkey without its key."""

    passkey_id: str
    name: str
    is_synced: bool
    """The passkey may be copied to other devices of the person."""
    is_backed_up: bool
    created_at: datetime
    last_used_at: datetime | None


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
