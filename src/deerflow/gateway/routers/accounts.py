"""Accounts: set-up, login, sessions, API tokens, and administration of users, below /v1/auth."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from deerflow.accounts.logins import NewSession
from deerflow.accounts.model import AccountRole, ClientInfo, Credential, UserAccount
from deerflow.domain.errors import Conflict, Forbidden
from deerflow.gateway.dependencies import CurrentAdmin, CurrentUser, HarnessDep, get_credential
from deerflow.gateway.middleware.authentication import COOKIE, SECURE_COOKIE, RequestOrigins, find_secret
from deerflow.gateway.schemas.accounts import (
    AcceptInvitation,
    ChangePassword,
    ChangeUser,
    CheckLink,
    CreateInvitation,
    CreateToken,
    Initialize,
    InvitationInfo,
    LinkInfo,
    LoginBody,
    Me,
    MyQuota,
    NewLink,
    NewToken,
    OpenedSession,
    QuotaInfo,
    QuotaLimits,
    ResetPassword,
    SessionInfo,
    SetupLink,
    SetupStatus,
    TokenInfo,
    UserInfo,
    UserQuota,
)

router = APIRouter(prefix="/v1/auth", tags=["accounts"])
admin_router = APIRouter(prefix="/v1/auth", tags=["accounts"])

NO_STORE = {"Cache-Control": "no-store"}


async def require_session(request: Request) -> Credential:
    """Return the session of the request: an API token must not give itself more rights."""
    credential = get_credential(request)
    if credential is None:
        raise Conflict("there are no accounts on this server")
    if credential.kind != "session":
        raise Forbidden("log in with a browser: API tokens cannot manage credentials")
    return credential


CurrentSession = Annotated[Credential, Depends(require_session)]


@router.get("/setup-status", summary="Get the state of the accounts")
async def get_setup_status(harness: HarnessDep) -> SetupStatus:
    """Return whether the first account is missing and whether a login is required."""
    is_required = await harness.resources.authenticator.needs_login()
    has_accounts = is_required and await harness.resources.accounts.exist()
    return SetupStatus(needs_setup=is_required and not has_accounts, login_required=is_required)


@router.post("/initialize", summary="Create the first account")
async def initialize(body: Initialize, request: Request, response: Response, harness: HarnessDep) -> OpenedSession:
    """Create the first account with the link that the server has printed, and log in.

    It is an administrator and owns what the local user had.
    """
    made = await harness.resources.accounts.set_up(
        body.token.get_secret_value(), body.email, body.password.get_secret_value()
    )
    return await open_session(*made, request, response, harness)


@router.post("/login/local", summary="Log in")
async def log_in(body: LoginBody, request: Request, response: Response, harness: HarnessDep) -> OpenedSession:
    """Log in with e-mail address and password; the session is set as a cookie."""
    client = get_client(request)
    session = await harness.resources.logins.log_in(
        body.email, body.password.get_secret_value(), client, find_session_secret(request)
    )
    return set_session(session, request, response, is_kept=body.remember_me)


@router.post("/check-link", summary="Check a link")
async def check_link(body: CheckLink, harness: HarnessDep) -> LinkInfo:
    """Return what a link is for: an invitation, or a new password."""
    link = await harness.resources.accounts.find_link(body.token.get_secret_value())
    return LinkInfo(kind=link.kind, email=link.email, expires_at=link.expires_at)


@router.post("/accept-invitation", summary="Accept an invitation")
async def accept_invitation(
    body: AcceptInvitation, request: Request, response: Response, harness: HarnessDep
) -> OpenedSession:
    """Create an account with an invitation, which is then used up, and log in."""
    made = await harness.resources.accounts.accept_invitation(
        body.token.get_secret_value(), body.email, body.password.get_secret_value()
    )
    return await open_session(*made, request, response, harness)


@router.post("/reset-password", summary="Set a new password with a link")
async def reset_password(
    body: ResetPassword, request: Request, response: Response, harness: HarnessDep
) -> OpenedSession:
    """Set a new password with a reset link, which is then used up, and log in. Other sessions end."""
    made = await harness.resources.accounts.reset_password(
        body.token.get_secret_value(), body.password.get_secret_value()
    )
    return await open_session(*made, request, response, harness)


@router.get("/me", summary="Get the current user")
async def get_me(request: Request, harness: HarnessDep, user: CurrentUser) -> Me:
    """Return the current user; the local user if no login is required."""
    credential = get_credential(request)
    role: AccountRole = "admin" if user.is_admin else "user"
    if credential is None:
        return Me(id=user.user_id, email=None, system_role=role, login_required=False)
    account = await harness.resources.logins.find_account(user)
    return Me.from_domain(account, credential.credential_id if credential.kind == "session" else None)


@router.get("/quota", summary="Get the quota of the current user")
async def get_my_quota(user: CurrentUser, harness: HarnessDep) -> MyQuota:
    """Return the limits of the current user, and what is used of them."""
    return MyQuota.from_domain(await harness.resources.quotas.get_usage(user))


@router.post("/logout", status_code=204, summary="Log out")
async def log_out(session: CurrentSession, request: Request, response: Response, harness: HarnessDep) -> None:
    """End the current session."""
    await harness.resources.logins.end_session(session.principal, session.credential_id)
    clear_session(request, response)


@router.post("/logout-everywhere", status_code=204, summary="Log out everywhere")
async def log_out_everywhere(
    session: CurrentSession, request: Request, response: Response, harness: HarnessDep
) -> None:
    """End all sessions of the current user."""
    await harness.resources.logins.end_all_sessions(session.principal)
    clear_session(request, response)


@router.post("/change-password", status_code=204, summary="Change the password")
async def change_password(body: ChangePassword, session: CurrentSession, request: Request, harness: HarnessDep) -> None:
    """Change the password of the current user. All other sessions end."""
    old, new = body.current_password.get_secret_value(), body.new_password.get_secret_value()
    await harness.resources.logins.change_password(session, old, new, get_client(request))


@router.get("/sessions", summary="List sessions")
async def list_sessions(user: CurrentUser, harness: HarnessDep) -> list[SessionInfo]:
    """List the sessions of the current user, last used first."""
    return [SessionInfo.model_validate(each) for each in await harness.resources.logins.list_sessions(user)]


@router.delete("/sessions/{session_id}", status_code=204, summary="End a session")
async def end_session(session_id: str, user: CurrentUser, request: Request, harness: HarnessDep) -> None:
    """End a session of the current user; its open event streams are closed."""
    refuse_tokens(request)
    await harness.resources.logins.end_session(user, session_id)


@router.get("/tokens", summary="List API tokens")
async def list_tokens(user: CurrentUser, harness: HarnessDep) -> list[TokenInfo]:
    """List the API tokens of the current user, without their secrets."""
    return [TokenInfo.model_validate(each) for each in await harness.resources.logins.list_tokens(user)]


@router.post("/tokens", summary="Create an API token")
async def create_token(body: CreateToken, session: CurrentSession, harness: HarnessDep) -> NewToken:
    """Create an API token, which programs send as `Authorization: Bearer` or `x-api-key`. It is shown only once."""
    created = await harness.resources.logins.create_token(
        session.principal, body.name, body.scope, body.expires_in_days
    )
    return NewToken.from_domain(created)


@router.delete("/tokens/{token_id}", status_code=204, summary="Revoke an API token")
async def revoke_token(token_id: str, user: CurrentUser, request: Request, harness: HarnessDep) -> None:
    """Revoke an API token of the current user; its open event streams are closed."""
    refuse_tokens(request)
    await harness.resources.logins.revoke_token(user, token_id)


@admin_router.post("/setup-link", summary="Create a set-up link")
async def create_setup_link(user: CurrentAdmin, harness: HarnessDep) -> SetupLink:
    """Create a link with which the first account is made. From then on, a login is required."""
    return SetupLink(path=await harness.resources.accounts.create_setup_path())


@admin_router.get("/users", summary="List users")
async def list_users(user: CurrentAdmin, harness: HarnessDep) -> list[UserInfo]:
    """List all accounts, oldest first."""
    return [UserInfo.model_validate(each) for each in await harness.resources.accounts.list()]


@admin_router.patch("/users/{user_id}", summary="Change a user")
async def change_user(user_id: str, body: ChangeUser, user: CurrentAdmin, harness: HarnessDep) -> UserInfo:
    """Change the role of an account, or deactivate or activate it. The last administrator stays one."""
    changed = await harness.resources.accounts.change(user_id, body.role, body.is_active, user)
    return UserInfo.model_validate(changed)


@admin_router.delete(
    "/users/{user_id}",
    status_code=204,
    summary="Delete a user",
    responses={202: {"description": "Deleted; remaining data is removed in the background."}},
)
async def delete_user(user_id: str, user: CurrentAdmin, harness: HarnessDep) -> Response:
    """Delete a user with everything they have: threads, files, memory, skills, agents, logins, keys and tokens."""
    return Response(status_code=204 if await harness.user_deletions.delete(user_id, user) else 202)


@admin_router.get("/users/{user_id}/quota", summary="Get the quota of a user", response_model_exclude_unset=True)
async def get_quota(user_id: str, user: CurrentAdmin, harness: HarnessDep) -> UserQuota:
    """Return the limits that are set for a person, and those in effect."""
    account = await harness.resources.accounts.find(user_id)
    quotas = harness.resources.quotas
    changed = QuotaLimits.model_validate(await quotas.read_changes(account.user_id))
    return UserQuota(changed=changed, effective=QuotaInfo.from_domain(await quotas.find(account.user_id)))


@admin_router.put("/users/{user_id}/quota", summary="Set the quota of a user", response_model_exclude_unset=True)
async def set_quota(user_id: str, body: QuotaLimits, user: CurrentAdmin, harness: HarnessDep) -> UserQuota:
    """Replace the limits that are set for a person. Those that are missing are configured; null is none."""
    effective = await harness.resources.quotas.change(user_id, body.get_changes())
    return UserQuota(changed=body, effective=QuotaInfo.from_domain(effective))


@admin_router.post("/users/{user_id}/reset-link", summary="Create a link for a new password")
async def create_reset_link(user_id: str, user: CurrentAdmin, harness: HarnessDep) -> NewLink:
    """Create a link with which a user sets a new password. An earlier one is no longer valid."""
    return NewLink.from_domain(await harness.resources.accounts.create_reset(user_id, user))


@admin_router.get("/invitations", summary="List invitations")
async def list_invitations(user: CurrentAdmin, harness: HarnessDep) -> list[InvitationInfo]:
    """List the invitations that can still be used, oldest first."""
    return [InvitationInfo.from_domain(each) for each in await harness.resources.accounts.list_invitations()]


@admin_router.post("/invitations", summary="Invite a person")
async def invite(body: CreateInvitation, user: CurrentAdmin, harness: HarnessDep) -> NewLink:
    """Create a link with which one person can make an account."""
    return NewLink.from_domain(await harness.resources.accounts.invite(body.email, body.role, user))


@admin_router.delete("/invitations/{invitation_id}", status_code=204, summary="Withdraw an invitation")
async def withdraw_invitation(invitation_id: str, user: CurrentAdmin, harness: HarnessDep) -> None:
    """Withdraw an invitation that was not used."""
    await harness.resources.accounts.withdraw_invitation(invitation_id, user)


async def open_session(
    account: UserAccount, password_hash: str, request: Request, response: Response, harness: HarnessDep
) -> OpenedSession:
    """Log in the user of an account whose password was just set."""
    session = await harness.resources.logins.open_session(
        account, password_hash, get_client(request), find_session_secret(request)
    )
    return set_session(session, request, response, is_kept=True)


def get_client(request: Request) -> ClientInfo:
    """Return the address and the program of the client."""
    return get_origins(request).describe_client(request.scope)


def get_origins(request: Request) -> RequestOrigins:
    """Return the reader of addresses and protocols of the application."""
    origins: RequestOrigins = request.app.state.request_origins
    return origins


def find_session_secret(request: Request) -> str | None:
    """Return the secret of the session that the browser has, which a login replaces."""
    found = find_secret(request.headers, is_secure=get_origins(request).is_secure(request.scope))
    return found[1] if found is not None and found[0] == "session" else None


def set_session(session: NewSession, request: Request, response: Response, *, is_kept: bool) -> OpenedSession:
    """Set the cookie of a new session."""
    seconds = int((session.session.expires_at - session.session.created_at).total_seconds())
    is_secure = get_origins(request).is_secure(request.scope)
    response.set_cookie(
        SECURE_COOKIE if is_secure else COOKIE,
        session.secret,
        max_age=seconds if is_kept else None,
        secure=is_secure,
        httponly=True,
        samesite="lax",
    )
    response.headers.update(NO_STORE)
    return OpenedSession(user=Me.from_domain(session.account, session.session.session_id), expires_in=seconds)


def clear_session(request: Request, response: Response) -> None:
    """Delete the cookie of the session."""
    is_secure = get_origins(request).is_secure(request.scope)
    name = SECURE_COOKIE if is_secure else COOKIE
    response.delete_cookie(name, secure=is_secure, httponly=True, samesite="lax")


def refuse_tokens(request: Request) -> None:
    """Refuse API tokens: they must not end sessions or revoke each other."""
    credential = get_credential(request)
    if credential is not None and credential.kind != "session":
        raise Forbidden("log in with a browser: API tokens cannot manage credentials")
