"""Single sign-on: logins at OpenID providers with the authorization code flow, PKCE and a nonce."""

import asyncio
import logging
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from secrets import compare_digest
from typing import Annotated, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from pydantic import BaseModel, Field, ValidationError

from deerflow.accounts import queries as rows
from deerflow.accounts.accounts import new_user_id
from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.id_token import KeySet, ProviderDocument, UserClaims, check_person, find_role, verify_id_token
from deerflow.accounts.logins import make_event, to_network
from deerflow.accounts.model import (
    AccountRole,
    Identity,
    LoginAttempt,
    UserAccount,
    clean_email,
    hash_secret,
    new_secret,
    to_email_key,
)
from deerflow.accounts.queries import login_methods as methods
from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import HttpClient, TlsTrust, WebProblem, WebRequest
from deerflow.config.imports import require_extra
from deerflow.config.sections.server import LOOPBACK_HOSTS, SsoProviderConfig
from deerflow.domain.errors import Conflict, NotFound, SignOnFailed
from deerflow.domain.identity import Principal, new_id
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.audit import recorded
from deerflow.sandbox.egress import Egress

logger = logging.getLogger(__name__)

LIFETIME = timedelta(minutes=10)
"""Time for a login at the provider."""
MAX_BYTES, MAX_TOKEN_CHARS = 1_000_000, 64_000
JSON = {"Accept": "application/json"}
ERROR_CODE = re.compile(r"[a-z_]{1,40}")
TEXT = Annotated[str, Field(min_length=1, max_length=2048)]


class ProviderMetadata(ProviderDocument):
    """Configuration that a provider publishes."""

    issuer: TEXT
    authorization_endpoint: TEXT
    token_endpoint: TEXT
    jwks_uri: TEXT
    userinfo_endpoint: TEXT | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class TokenResponse(ProviderDocument):
    """Tokens for a code."""

    id_token: Annotated[str, Field(max_length=MAX_TOKEN_CHARS)]
    access_token: Annotated[str, Field(max_length=MAX_TOKEN_CHARS)] | None = None


class PendingSignOn(ProviderDocument):
    """Login that has begun: what its answer is compared with."""

    provider: str
    browser_hash: str
    redirect_uri: str
    return_to: str
    nonce: str
    verifier: str
    metadata: str


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """Parameters with which a browser returns from a provider."""

    state: str
    code: str | None = None
    iss: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FinishedSignOn:
    """Account that a person has logged in to, or has linked, with its stored password."""

    account: UserAccount
    password_hash: str
    return_to: str
    is_link: bool


Document = TypeVar("Document", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class SingleSignOn:
    """Logins at the configured OpenID providers."""

    database: Database
    authenticator: Authenticator
    timeout_s: float = 10.0
    now: Callable[[], datetime] = partial(datetime.now, UTC)
    trust: TlsTrust = field(default_factory=TlsTrust)

    def list_providers(self) -> Mapping[str, str]:
        """Return the names of the providers with their labels."""
        configured = self.authenticator.settings.current.sso
        return {name: provider.label or name for name, provider in configured.items()}

    async def begin(
        self, name: str, redirect_uri: str, browser: str, return_to: str, address: str, user_id: str | None = None
    ) -> str:
        """Begin a login and return the URL of the provider to which the browser is sent.

        `browser` is a secret of the browser. With a `user_id`, the identity is linked to that account.

        Raises:
            NotFound: There is no such provider.
            SignOnFailed: The provider cannot be used.
            TooManyAttempts: Too many logins have begun.
        """
        provider = self._get_provider(name)
        with require_extra("sso", f"users.sso.{name}"):
            await asyncio.to_thread(load_jwt)
        metadata = await self._discover(provider)
        state, nonce, verifier = new_secret(), new_secret(), new_secret()
        pending = PendingSignOn(
            provider=name,
            browser_hash=hash_secret(browser),
            redirect_uri=redirect_uri,
            return_to=clean_return_path(return_to),
            nonce=nonce,
            verifier=verifier,
            metadata=metadata.model_dump_json(),
        )
        now, network = self.now(), hash_secret(to_network(address))
        attempt = LoginAttempt("sso", user_id, network, pending.model_dump(), now + LIFETIME)
        change = partial(methods.insert_attempt, new=attempt, key_hash=hash_secret(state), now=now)
        await self.database.write(change)
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *provider.scopes))),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
        return f"{metadata.authorization_endpoint}{separator}{urlencode(query)}"

    async def finish(
        self, name: str, response: AuthorizationResponse, browser: str | None, who: Principal | None
    ) -> FinishedSignOn:
        """Check the response of a provider and return the account of the person.

        Raises:
            SignOnFailed: The response is not valid, or the person may not log in.
        """
        try:
            take = partial(methods.take_attempt, key_hash=hash_secret(response.state), kind="sso", now=self.now())
            attempt = await self.database.write(take)
        except NotFound as problem:
            raise SignOnFailed(str(problem), "expired") from None
        pending = PendingSignOn.model_validate(attempt.data)
        if browser is None or not compare_digest(hash_secret(browser), pending.browser_hash):
            raise SignOnFailed("the login was begun in another browser", "expired")
        metadata = ProviderMetadata.model_validate_json(pending.metadata)
        provider = self._check_response(name, response, pending, metadata)
        claims = await self._fetch_claims(provider, metadata, pending, response.code or "")
        check_person(provider, claims)
        if attempt.user_id is not None:
            found = await self._link(attempt.user_id, provider, claims, who)
        else:
            found = await self._find_account(provider, claims)
        return FinishedSignOn(*found, pending.return_to, is_link=attempt.user_id is not None)

    async def list_identities(self, who: Principal) -> Sequence[Identity]:
        """Return the identities of a user, oldest first."""
        return await self.database.read(partial(methods.list_identities, owner=who.user_id))

    async def delete_identity(self, who: Principal, identity_id: str) -> None:
        """Remove an identity of a user.

        Raises:
            NotFound: There is none.
            Conflict: The account has no other way to log in.
        """
        change = partial(methods.delete_identity, owner=who.user_id, identity_id=identity_id)
        event = make_event("account.identity_removed", who.user_id, identity=identity_id)
        await self.database.write(recorded(change, event))

    def _get_provider(self, name: str) -> SsoProviderConfig:
        provider = self.authenticator.settings.current.sso.get(name)
        if provider is None:
            raise NotFound(f"no provider {name!r}")
        return provider

    def _check_response(
        self, name: str, response: AuthorizationResponse, pending: PendingSignOn, metadata: ProviderMetadata
    ) -> SsoProviderConfig:
        """Return the provider of a response, if the response is from the provider that was asked."""
        if name != pending.provider:
            raise SignOnFailed("the response is from another provider than the one that was asked")
        provider = self.authenticator.settings.current.sso.get(name)
        if provider is None or provider.issuer != metadata.issuer:
            raise SignOnFailed("the provider is no longer configured")
        is_named = metadata.authorization_response_iss_parameter_supported
        if response.iss != metadata.issuer and (is_named or response.iss is not None):
            raise SignOnFailed("the response names another issuer")
        if response.error is not None:
            code = response.error if ERROR_CODE.fullmatch(response.error) else "invalid"  # anyone can write it
            reason = "denied" if code == "access_denied" else "failed"
            raise SignOnFailed(f"the provider answered with the error {code!r}", reason)
        if not response.code:
            raise SignOnFailed("the response has no code")
        return provider

    async def _discover(self, provider: SsoProviderConfig) -> ProviderMetadata:
        url = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = await self._request(provider, WebRequest(url, headers=JSON), ProviderMetadata)
        if metadata.issuer != provider.issuer:
            raise SignOnFailed(f"the provider states the issuer {metadata.issuer[:200]!r}, not {provider.issuer!r}")
        for each in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri):
            check_url(each)
        return metadata

    async def _fetch_claims(
        self, provider: SsoProviderConfig, metadata: ProviderMetadata, pending: PendingSignOn, code: str
    ) -> UserClaims:
        """Exchange a code for tokens; return the claims of the ID token, or of the user info if it has no address."""
        form, headers = authenticate_client(provider, metadata)
        form |= {"grant_type": "authorization_code", "code": code, "redirect_uri": pending.redirect_uri}
        exchange = WebRequest(
            metadata.token_endpoint, "POST", {**JSON, **headers}, form={**form, "code_verifier": pending.verifier}
        )
        tokens = await self._request(provider, exchange, TokenResponse)
        keys = await self._request(provider, WebRequest(metadata.jwks_uri, headers=JSON), KeySet)
        claims = verify_id_token(tokens.id_token, keys, provider, pending.nonce, self.now().timestamp())
        if claims.email is not None or metadata.userinfo_endpoint is None or tokens.access_token is None:
            return claims
        headers = {**JSON, "Authorization": f"Bearer {tokens.access_token}"}
        info = await self._request(provider, WebRequest(metadata.userinfo_endpoint, headers=headers), UserClaims)
        if info.sub != claims.sub:
            raise SignOnFailed("the user info is about another person")
        return UserClaims.model_validate({**claims.model_dump(), **info.model_dump(exclude_none=True)})

    async def _request(self, provider: SsoProviderConfig, request: WebRequest, model: type[Document]) -> Document:
        check_url(request.url)
        # The operator has configured the issuer, so it may be in a private network; other hosts may not.
        is_issuer = urlsplit(request.url).hostname == urlsplit(provider.issuer).hostname
        egress = Egress(is_allowed=lambda _: True) if is_issuer else Egress()
        http = HttpClient(self.timeout_s, MAX_BYTES, EgressTransport(egress, self.trust), self.trust)
        host = urlsplit(request.url).hostname
        try:
            reply = await http.send(request)
        except WebProblem as problem:
            raise SignOnFailed(f"no response of the provider: {problem}") from None
        if reply.status != 200 or reply.is_truncated:
            raise SignOnFailed(f"{host} answered with status {reply.status}")
        try:
            return model.model_validate_json(reply.body)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            raise SignOnFailed(f"invalid response of {host}: {first['loc']} {first['msg']}") from None

    async def _link(
        self, user_id: str, provider: SsoProviderConfig, claims: UserClaims, who: Principal | None
    ) -> tuple[UserAccount, str]:
        """Link an identity to the account of a person who is logged in and has the same verified address."""
        login = await self.database.read(partial(methods.find_login, owner=user_id))
        if who is None or who.user_id != user_id or login is None:
            raise SignOnFailed("the session has ended; log in again", "expired")
        if login[0].is_admin:
            raise SignOnFailed("identities cannot be linked to administrators", "admin")
        if to_email_key(claims.email or "") != to_email_key(login[0].email):
            raise SignOnFailed("the provider has another e-mail address for you", "other-address")
        identity = self._new_identity(user_id, provider, claims)
        event = make_event("account.identity_linked", user_id, identity=identity.identity_id)
        try:
            await self.database.write(recorded(partial(methods.insert_identity, new=identity), event))
        except Conflict as problem:
            raise SignOnFailed(str(problem), "linked") from None
        return login

    def _new_identity(self, user_id: str, provider: SsoProviderConfig, claims: UserClaims) -> Identity:
        now = self.now()
        return Identity(new_id(), user_id, provider.issuer, claims.sub, (claims.email or "")[:255], now, now)

    async def _find_account(self, provider: SsoProviderConfig, claims: UserClaims) -> tuple[UserAccount, str]:
        """Return the account of an identity. The first time, it is created; an address never selects one."""
        role = find_role(provider, claims)
        find = partial(methods.find_identity, issuer=provider.issuer, subject=claims.sub)
        identity = await self.database.read(find)
        if identity is None:
            await self._create_account(provider, claims, role or "user")
            identity = await self.database.read(find)
        owner = identity.owner if identity is not None else ""
        login = await self.database.read(partial(methods.find_login, owner=owner))
        if identity is None or login is None or not login[0].is_active:
            raise SignOnFailed("the account is disabled", "not-allowed")
        used = partial(methods.record_identity_use, identity=identity, email=(claims.email or "")[:255])
        await self.database.write(partial(used, now=self.now()))
        if role is not None and role != login[0].role:
            return await self._change_role(login[0], role), login[1]
        return login

    async def _create_account(self, provider: SsoProviderConfig, claims: UserClaims, role: AccountRole) -> None:
        if not provider.create_accounts or not await self.database.read(rows.has_accounts):
            raise SignOnFailed("there is no account for this person", "not-allowed")
        account = UserAccount(
            new_user_id(), clean_email(claims.email or ""), role, is_active=True, created_at=self.now()
        )
        identity = self._new_identity(account.user_id, provider, claims)
        password = f"{methods.UNUSABLE_PASSWORD}{new_secret()}"
        create = partial(methods.create_account_of, new=identity, account=account, password_hash=password)
        event = make_event("account.created", account.user_id, role=role, identity=identity.identity_id)
        try:
            await self.database.write(recorded(create, event))
        except Conflict as problem:
            if (
                await self.database.read(partial(methods.find_identity, issuer=identity.issuer, subject=claims.sub))
                is None
            ):
                raise SignOnFailed(str(problem), "has-account") from None

    async def _change_role(self, account: UserAccount, role: AccountRole) -> UserAccount:
        try:
            change = partial(rows.change_account, owner=account.user_id, role=role)
            event = make_event("account.changed", account.user_id, role=role, cause="groups")
            changed = await self.database.write(recorded(change, event))
        except Conflict as problem:
            logger.warning("the role of an account was not changed: %s", problem)
            return account
        await self.authenticator.apply_changes()
        return changed


def load_jwt() -> None:
    """Import the library that verifies tokens."""
    import joserfc.jwt  # noqa: F401


def check_url(url: str) -> None:
    """Raise `SignOnFailed` unless secrets may be sent to a URL: https, or http to this machine."""
    try:
        parts = urlsplit(url)
        is_secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS)
        if is_secure and parts.hostname and parts.username is None and parts.port != 0:
            return
    except ValueError:
        pass
    raise SignOnFailed(f"the URL {url[:200]!r} of the provider is not secure")


def clean_return_path(path: str) -> str:
    """Return a path of the page; `/` for addresses of other sites and of the API."""
    is_path = path.startswith("/") and not path.startswith(("//", "/api/")) and "\\" not in path
    return path if is_path and path.isprintable() and " " not in path and len(path) <= 500 else "/"


def authenticate_client(
    provider: SsoProviderConfig, metadata: ProviderMetadata
) -> tuple[dict[str, str], Mapping[str, str]]:
    """Return form and headers that authenticate this server at the token endpoint."""
    form = {"client_id": provider.client_id}
    if provider.client_secret is None:
        return form, {}
    if "client_secret_basic" not in metadata.token_endpoint_auth_methods_supported:
        return {**form, "client_secret": provider.client_secret}, {}
    pair = f"{quote(provider.client_id, safe='')}:{quote(provider.client_secret, safe='')}"
    return form, {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
