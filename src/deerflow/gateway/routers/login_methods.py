"""Logins at OpenID providers and with passkeys, and the management of both, below /v1/auth."""

import logging
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.types import JsonValue
from starlette.responses import RedirectResponse

from deerflow.accounts.model import SECRET, new_secret
from deerflow.accounts.passkeys import WebOrigin
from deerflow.accounts.single_sign_on import LIFETIME, AuthorizationResponse, FinishedSignOn
from deerflow.config.sections.server import LOOPBACK_HOSTS
from deerflow.domain.errors import (
    ConfigError,
    InvalidRequest,
    LoginFailed,
    NotFound,
    SignOnFailed,
    TooManyAttempts,
    Unauthorized,
)
from deerflow.gateway.dependencies import CurrentUser, HarnessDep
from deerflow.gateway.examples import with_examples
from deerflow.gateway.middleware.authentication import read_cookies
from deerflow.gateway.routers.accounts import (
    NO_STORE,
    CurrentSession,
    find_session_secret,
    get_client,
    get_origins,
    refuse_tokens,
    set_session,
)
from deerflow.gateway.schemas.accounts import FromAccounts, OpenedSession
from deerflow.harness import Harness

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/v1/auth", tags=["accounts"])

BROWSER, SECURE_BROWSER = "deerflow_login", "__Host-deerflow_login"
"""Cookie that binds a login at a provider to the browser that began it."""
LOGIN_PAGE, ACCOUNT_PAGE = "/login", "/account"
Text = Annotated[str | None, Query(max_length=4096)]
CredentialJson = Annotated[dict[str, JsonValue], Field(max_length=20)]
PASSKEY: dict[str, JsonValue] = {
    "id": "AQ",
    "rawId": "AQ",
    "type": "public-key",
    "response": {"clientDataJSON": "e30", "authenticatorData": "AA", "signature": "AA"},
}


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


@router.get("/providers", summary="List the ways to log in")
async def list_providers(harness: HarnessDep) -> LoginProviders:
    """List the OpenID providers at which people log in, and whether they can use passkeys."""
    if not harness.core.source.current.config.users.sso:
        return LoginProviders(providers=[], passkeys=harness.resources.passkeys.is_available)
    found = harness.resources.single_sign_on.list_providers()
    providers = [LoginProvider(name=name, label=label) for name, label in found.items()]
    return LoginProviders(providers=providers, passkeys=harness.resources.passkeys.is_available)


@router.get("/oauth/{provider}", summary="Log in at a provider", status_code=303)
async def begin_sign_on(
    provider: str, request: Request, harness: HarnessDep, return_to: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    """Send the browser to an OpenID provider; afterwards it returns to the path `next` of the page."""
    response = redirect(LOGIN_PAGE)
    try:
        response.headers["location"] = await send_to_provider(provider, request, response, harness, return_to)
    except (SignOnFailed, TooManyAttempts, InvalidRequest, ConfigError) as problem:
        return await report(provider, problem, LOGIN_PAGE, request, harness)
    return response


@router.post("/oauth/{provider}/link", summary="Link an identity")
async def begin_link(
    provider: str, session: CurrentSession, request: Request, response: Response, harness: HarnessDep
) -> StartedLink:
    """Begin to link the current account to an identity, which must have the same verified e-mail address."""
    response.headers.update(NO_STORE)
    user = session.principal.user_id
    return StartedLink(url=await send_to_provider(provider, request, response, harness, ACCOUNT_PAGE, user))


@router.get("/callback/{provider}", summary="Return from a provider", status_code=303)
async def finish_sign_on(
    provider: str,
    request: Request,
    harness: HarnessDep,
    state: Text = None,
    code: Text = None,
    iss: Text = None,
    error: Text = None,
) -> Response:
    """Finish a login at an OpenID provider and send the browser to the page."""
    if provider not in harness.core.source.current.config.users.sso:
        raise NotFound(f"no provider {provider!r}")
    answer = AuthorizationResponse(state or "", code, iss, error)
    credential = None
    if (secret := find_session_secret(request)) is not None:
        credential = await harness.resources.authenticator.find("session", secret)
    failed_at = ACCOUNT_PAGE if credential is not None else LOGIN_PAGE
    try:
        done = await harness.resources.single_sign_on.finish(
            provider, answer, find_browser_secret(request), credential.principal if credential else None
        )
        response = redirect(done.return_to)
        if not done.is_link:
            await log_in(done, request, response, harness)
    except (SignOnFailed, Unauthorized, InvalidRequest) as problem:
        return await report(provider, problem, failed_at, request, harness)
    response.delete_cookie(get_cookie_name(request), secure=is_secure(request), httponly=True, samesite="lax")
    return response


@router.get("/identities", summary="List identities")
async def list_identities(user: CurrentUser, harness: HarnessDep) -> list[IdentityInfo]:
    """List the identities at OpenID providers that are linked to the current account, oldest first."""
    return [IdentityInfo.model_validate(each) for each in await harness.resources.single_sign_on.list_identities(user)]


@router.delete("/identities/{identity_id}", status_code=204, summary="Remove an identity")
async def delete_identity(identity_id: str, user: CurrentUser, request: Request, harness: HarnessDep) -> None:
    """Remove an identity from the current account, unless it is the only way to log in."""
    refuse_tokens(request)
    await harness.resources.single_sign_on.delete_identity(user, identity_id)


@router.post("/passkeys/login/options", summary="Begin a login with a passkey")
async def begin_passkey_login(request: Request, response: Response, harness: HarnessDep) -> PasskeyOptions:
    """Return the options for `navigator.credentials.get`; they are good for one login."""
    response.headers.update(NO_STORE)
    options = await harness.resources.passkeys.begin_login(get_web_origin(request, harness))
    return PasskeyOptions(options=dict(options))


@router.post("/passkeys/login", summary="Log in with a passkey")
async def log_in_with_passkey(
    body: PasskeyLogin, request: Request, response: Response, harness: HarnessDep
) -> OpenedSession:
    """Log in with the answer of a passkey; the session is set as a cookie."""
    origin = get_web_origin(request, harness)
    try:
        account, stored = await harness.resources.passkeys.finish_login(body.credential, origin)
    except LoginFailed:
        await harness.resources.logins.record_failure("passkey", get_client(request))
        raise
    session = await harness.resources.logins.open_session(
        account, stored, get_client(request), find_session_secret(request)
    )
    return set_session(session, request, response, is_kept=body.remember_me)


@router.get("/passkeys", summary="List passkeys")
async def list_passkeys(user: CurrentUser, harness: HarnessDep) -> list[PasskeyInfo]:
    """List the passkeys of the current user, oldest first."""
    return [PasskeyInfo.model_validate(each) for each in await harness.resources.passkeys.list(user)]


@router.post("/passkeys/options", summary="Begin the registration of a passkey")
async def begin_passkey(
    session: CurrentSession, request: Request, response: Response, harness: HarnessDep
) -> PasskeyOptions:
    """Return the options for `navigator.credentials.create`; they are good for one passkey."""
    response.headers.update(NO_STORE)
    origin = get_web_origin(request, harness)
    return PasskeyOptions(options=dict(await harness.resources.passkeys.begin_registration(session.principal, origin)))


@router.post("/passkeys", summary="Register a passkey")
async def finish_passkey(
    body: FinishPasskey, session: CurrentSession, request: Request, harness: HarnessDep
) -> PasskeyInfo:
    """Store a passkey that the browser has created."""
    origin = get_web_origin(request, harness)
    made = await harness.resources.passkeys.finish_registration(session.principal, body.name, body.credential, origin)
    return PasskeyInfo.model_validate(made)


@router.patch("/passkeys/{passkey_id}", summary="Rename a passkey")
async def rename_passkey(
    passkey_id: str, body: RenamePasskey, session: CurrentSession, harness: HarnessDep
) -> PasskeyInfo:
    """Rename a passkey of the current user."""
    return PasskeyInfo.model_validate(await harness.resources.passkeys.rename(session.principal, passkey_id, body.name))


@router.delete("/passkeys/{passkey_id}", status_code=204, summary="Remove a passkey")
async def delete_passkey(passkey_id: str, user: CurrentUser, request: Request, harness: HarnessDep) -> None:
    """Remove a passkey of the current user, unless it is the only way to log in."""
    refuse_tokens(request)
    await harness.resources.passkeys.delete(user, passkey_id)


async def send_to_provider(
    name: str, request: Request, response: Response, harness: Harness, return_to: str, user_id: str | None = None
) -> str:
    """Begin a login, bind it to the browser with a cookie, and return the URL of the provider."""
    callback = f"{get_page_url(request, harness)}/api/v1/auth/callback/{name}"
    browser, address = find_browser_secret(request) or new_secret(), get_client(request).address
    url = await harness.resources.single_sign_on.begin(name, callback, browser, return_to, address, user_id)
    response.set_cookie(
        get_cookie_name(request),
        browser,
        max_age=int(LIFETIME.total_seconds()),
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )
    return url


async def log_in(done: FinishedSignOn, request: Request, response: Response, harness: Harness) -> None:
    """Open a session of a person whom a provider has identified."""
    session = await harness.resources.logins.open_session(
        done.account, done.password_hash, get_client(request), find_session_secret(request)
    )
    set_session(session, request, response, is_kept=True)


async def report(provider: str, problem: Exception, page: str, request: Request, harness: Harness) -> Response:
    """Log and record the reason of a failure, and send the browser to a page that explains it."""
    logger.warning("single sign-on at %r failed: %s", provider, problem)
    if not isinstance(problem, SignOnFailed):
        return redirect(f"{page}?problem=failed")
    configured = harness.core.source.current.config.users.sso.get(provider)
    issuer = configured.issuer if configured is not None else ""
    details = {"provider": provider, "issuer": issuer, "reason": problem.reason, "problem": str(problem)}
    await harness.resources.logins.record_failure("single sign-on", get_client(request), **details)
    return redirect(f"{page}?problem={problem.reason}")


def redirect(url: str) -> Response:
    """Return a response that sends the browser to a URL and is not stored."""
    return RedirectResponse(url, 303, headers={**NO_STORE, "Referrer-Policy": "no-referrer"})


def get_page_url(request: Request, harness: Harness) -> str:
    """Return the origin of the page: as configured, or of a request to this machine.

    Raises:
        InvalidRequest: It is not known: other names in a request cannot be trusted.
    """
    public_url = harness.core.source.current.config.gateway.public_url
    if public_url is not None:
        return public_url
    if request.url.hostname not in LOOPBACK_HOSTS:
        raise InvalidRequest("set gateway.public_url to the address of this server")
    return f"{'https' if is_secure(request) else 'http'}://{request.url.netloc}"


def get_web_origin(request: Request, harness: Harness) -> WebOrigin:
    """Return the origin to which passkeys are bound, and the address of the client."""
    return WebOrigin(get_page_url(request, harness), get_client(request).address)


def is_secure(request: Request) -> bool:
    """Return whether the client uses TLS."""
    return get_origins(request).is_secure(request.scope)


def get_cookie_name(request: Request) -> str:
    """Return the name of the cookie that identifies the browser during a login."""
    return SECURE_BROWSER if is_secure(request) else BROWSER


def find_browser_secret(request: Request) -> str | None:
    """Return the secret of a browser that has begun a login."""
    found = list(read_cookies(request.headers.getlist("cookie"), get_cookie_name(request)))
    return found[0] if len(found) == 1 and SECRET.fullmatch(found[0]) else None
