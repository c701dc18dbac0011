"""Sessions and API tokens of requests. Without a valid one, only the listed routes and the page are served."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import ceil

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.model import API_TOKEN, ClientInfo, Credential, CredentialKind, hash_secret
from deerflow.accounts.quotas import Quotas
from deerflow.config.sections.base import Settings
from deerflow.domain.errors import StorageUnavailable
from deerflow.gateway.errors import ERRORS, error_response
from deerflow.gateway.middleware.request_context import END, EVENT_STREAM, STREAM_GUARD, only_reads
from deerflow.sandbox.local.launcher.network import SandboxedClients

logger = logging.getLogger(__name__)

CREDENTIAL = "deerflow.credential"
"""Key of the scope for the credential of a request."""
GUARD = "deerflow.guard"
"""Key of the scope for the guarded request."""
AUTH = "/api/v1/auth/"
PUBLIC = frozenset(
    {
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", f"{AUTH}setup-status"),
        ("POST", f"{AUTH}initialize"),
        ("POST", f"{AUTH}login/local"),
        ("POST", f"{AUTH}check-link"),
        ("POST", f"{AUTH}accept-invitation"),
        ("POST", f"{AUTH}reset-password"),
        ("GET", f"{AUTH}providers"),
        ("POST", f"{AUTH}passkeys/login/options"),
        ("POST", f"{AUTH}passkeys/login"),
    }
)
"""Routes without a login, besides those below and the page."""
PUBLIC_BELOW = ("/api/shared/", f"{AUTH}oauth/", f"{AUTH}callback/")
"""Beginnings of paths that are read without a login: shared threads, and logins at OpenID providers."""
HOOK = re.compile(r"/api/hooks/[^/]+")
"""Webhooks, whose requests are signed instead. Other paths below need a login."""
PROTECTED = ("/api/", "/mcp", "/metrics")
"""Beginnings of the paths that need a credential; the rest is the page."""
METRICS = "/metrics"
COOKIE, SECURE_COOKIE = "deerflow_session", "__Host-deerflow_session"
CSRF_HEADER = "x-csrf-protection"
"""Header of requests of the page that change something. Forms cannot send it, and other origins need permission to."""
TOO_MANY_REQUESTS = "too many requests per second; send fewer"
PROGRAM_REFUSED = "programs in a sandbox need an API token; add an account and create one"
LOGIN_REQUIRED = "login required"
INVALID = "the session or token is not valid; log in again"
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="DeerFlow"', "Cache-Control": "no-store"}
READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
ANONYMOUS = "~"
"""All people who have not logged in, for turns; not a valid user id."""
STOPS_RUN = b"cancel_on_disconnect"
"""Parameter of event streams with which a request that reads may stop a run."""


class RequestOrigins:
    """Address and protocol of requests, also behind reverse proxies."""

    def __init__(self, trusted_proxies: Sequence[str], is_always_secure: bool = False) -> None:
        """Believe the headers of `trusted_proxies` only, which are networks."""
        self._trusted: list[IPv4Network | IPv6Network] = [ip_network(each) for each in trusted_proxies]
        self._is_always_secure = is_always_secure

    def describe_client(self, scope: Scope) -> ClientInfo:
        """Return the address and the program of a client."""
        headers = Headers(scope=scope)
        return ClientInfo(self._find_address(scope, headers), headers.get("user-agent", ""))

    def is_secure(self, scope: Scope) -> bool:
        """Return whether the client uses TLS."""
        if self._is_always_secure or scope.get("scheme") == "https":
            return True
        forwarded = Headers(scope=scope).getlist("x-forwarded-proto")
        # The proxy that is connected to this server has written the last one.
        return bool(forwarded) and self._is_trusted(peer(scope)) and forwarded[-1].split(",")[-1].strip() == "https"

    def _find_address(self, scope: Scope, headers: Headers) -> str:
        found = peer(scope)
        chain = ",".join(headers.getlist("x-forwarded-for")).split(",")
        while chain and self._is_trusted(found):
            address = chain.pop().strip()
            if parse_address(address) is None:
                break
            found = address
        return found

    def _is_trusted(self, address: str) -> bool:
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self._trusted)


def peer(scope: Scope) -> str:
    """Return the address that is connected to this server."""
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address, None if it is none. IPv4 addresses in IPv6 notation are converted."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


class SandboxedPrograms:
    """Programs of agents that have the network of this machine. Without a login, the API is not for them."""

    def __init__(self, network: Settings[bool], authenticator: Authenticator) -> None:
        """`network` tells whether any program has the network of this machine."""
        self._network = network
        self._authenticator = authenticator
        self._clients = SandboxedClients()

    @property
    def have_network(self) -> bool:
        """True if the configuration gives any program the network of this machine."""
        return self._network.current

    async def include(self, scope: Scope) -> bool:
        """Return whether one of them has sent a request. Where that is not known, a login is required from now on."""
        if not self.have_network:
            return False
        try:
            return await asyncio.to_thread(self._clients.include, scope["client"], scope["server"])
        except (OSError, AttributeError, ValueError, TypeError):  # no netlink, or no connection of this machine
            logger.warning("a login is required: programs of agents have the network, and cannot be told apart here")
            self._authenticator.is_login_required = True
            return True


class AuthenticationMiddleware:
    """Middleware that denies requests without a valid session or token, if there is any account."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        quotas: Quotas,
        origins: RequestOrigins,
        programs: "SandboxedPrograms",
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._quotas = quotas
        self._programs = programs
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = self._authenticator.is_open and not self._programs.have_network
        if is_open or scope["type"] != "http" or is_public(scope):
            if is_open or scope.get("method") != "POST":
                await self._app(scope, receive, send)
                return
            async with self._quotas.turns.requests.slot(ANONYMOUS):  # logins, of which many may come at once
                await self._app(scope, receive, send)
            return
        try:
            found = await self._authenticate(scope)
        except StorageUnavailable as problem:
            name = type(problem).__name__
            await error_response(ERRORS[name].status, name, str(problem))(scope, receive, send)
            return
        if isinstance(found, Response):
            await found(scope, receive, send)
        elif found is None or scope["path"].startswith(AUTH):
            # Requests to `AUTH` revoke credentials, also their own, and then answer.
            await self._app(scope, receive, send)
        else:
            await self._serve(scope, receive, send, GuardedRequest(*found, receive))

    async def _authenticate(self, scope: Scope) -> tuple[Credential, str] | Response | None:
        """Return the credential of a request with its hash, or a refusal; None if no login is required."""
        if not await self._authenticator.needs_login():
            if not await self._programs.include(scope):
                return None
            return error_response(403, "Forbidden", PROGRAM_REFUSED)
        headers = Headers(scope=scope)
        presented = find_secret(headers, is_secure=self._origins.is_secure(scope))
        if presented is None:
            return error_response(401, "Unauthorized", LOGIN_REQUIRED, CHALLENGE)
        credential = await self._authenticator.find(*presented)
        if credential is None:
            return error_response(401, "Unauthorized", INVALID, CHALLENGE)
        reason = find_missing_right(scope, headers, credential)
        if reason is not None:
            return error_response(403, "Forbidden", reason)
        if wait := await self._quotas.check_request(credential.principal.user_id):
            return error_response(429, "QuotaExceeded", TOO_MANY_REQUESTS, {"Retry-After": str(ceil(wait))})
        scope[CREDENTIAL] = credential
        return credential, hash_secret(presented[1])

    async def _serve(self, scope: Scope, receive: Receive, send: Send, request: "GuardedRequest") -> None:
        request.on_close = partial(self._authenticator.unregister, request)
        self._authenticator.register(request)
        scope[GUARD] = request
        try:
            async with self._quotas.turns.requests.slot(request.credential.principal.user_id):
                if not request.is_revoked:  # while it waited
                    await self._app(scope, request.receive, partial(request.send, send))
            if request.is_revoked:
                await request.finish(scope, receive, send)
        finally:
            if EVENT_STREAM in scope:
                scope[STREAM_GUARD] = request  # the outermost middleware closes it at the end of the stream
            else:
                request.close()


def is_public(scope: Scope) -> bool:
    """Return whether a route needs no credential. Whatever is not listed needs one."""
    method, path = scope["method"], scope["path"]
    if (method, path) in PUBLIC or (method == "POST" and HOOK.fullmatch(path)):
        return True
    if method not in ("GET", "HEAD"):
        return False
    return path.startswith(PUBLIC_BELOW) or not path.startswith(PROTECTED)


def find_secret(headers: Headers, *, is_secure: bool) -> tuple[CredentialKind, str] | None:
    """Return the kind and the secret of the credential that a request presents; None if it has none, or several."""
    given = [value.partition(" ") for value in headers.getlist("authorization")]
    tokens = [secret.strip() if scheme.lower() == "bearer" else "" for scheme, _, secret in given]
    tokens = tokens or headers.getlist("x-api-key")
    if tokens:
        return ("token", tokens[0]) if len(tokens) == 1 and API_TOKEN.fullmatch(tokens[0]) else None
    # A site next to this one may set a cookie of the same name, but none with the prefix of secure ones.
    name = SECURE_COOKIE if is_secure else COOKIE
    cookies = list(read_cookies(headers.getlist("cookie"), name))
    return ("session", cookies[0]) if len(cookies) == 1 else None


def read_cookies(lines: Iterable[str], name: str) -> Iterable[str]:
    """Yield the values of all cookies with a name."""
    for line in lines:
        for pair in line.split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name:
                yield value


def find_missing_right(scope: Scope, headers: Headers, credential: Credential) -> str | None:
    """Return the reason why a credential does not allow a request; None if it does."""
    if scope["path"] == METRICS and not credential.principal.is_admin:
        return "admin rights are required"
    if credential.kind == "session":
        return None if scope["method"] in READ_METHODS else find_forgery(headers)
    if not credential.may_write and (not only_reads(scope) or STOPS_RUN in scope.get("query_string", b"")):
        return "a token with the scope read cannot change anything"
    return None


def find_forgery(headers: Headers) -> str | None:
    """Return the reason why a request with a cookie may come from another site; None if it comes from the page.

    `SameOriginMiddleware` has compared the origin, if there is one.
    """
    if headers.get("origin") is None and headers.get("sec-fetch-site") != "same-origin":
        return "requests with a session cookie that change something need the header Origin"
    if headers.get(CSRF_HEADER) != "1":
        return "requests with a session cookie that change something need the header X-CSRF-Protection: 1"
    return None


class GuardedRequest:
    """Request that ends like one whose client is gone when its session or token is revoked."""

    def __init__(self, credential: Credential, secret_hash: str, receive: Receive) -> None:
        self.credential = credential
        self.secret_hash = secret_hash
        self.is_revoked = False
        self.on_close: Callable[[], object] = lambda: None
        self.check_access: Callable[[], Awaitable[bool]] | None = None
        """Tells whether a thread of another person is still shared with the person; set if the request is for one."""
        self._refusal: tuple[int, str, str, Mapping[str, str]] = (401, "Unauthorized", INVALID, CHALLENGE)
        self._receive = receive
        self._waiting: set[asyncio.Task[object]] = set()
        self._has_started = self._has_ended = self._is_stream = False

    async def has_access(self) -> bool:
        """Return whether the thread of the request is still shared with its person."""
        if self.check_access is None or await self.check_access():
            return True
        self._refusal = (404, "NotFound", "no such thread", {})
        return False

    def revoke(self) -> None:
        """End the request. Two checks at the same time may both ask for it; it is cancelled once."""
        if self.is_revoked:
            return
        self.is_revoked = True
        for task in self._waiting:
            task.cancel()

    def close(self) -> None:
        """Note that the request has ended."""
        self.on_close()

    async def receive(self) -> Message:
        """Return the next message of the client; a disconnect after the revocation."""
        if self.is_revoked:
            return {"type": "http.disconnect"}
        task = asyncio.current_task()
        if task is None:
            return await self._receive()
        self._waiting.add(task)
        try:
            return await self._receive()
        except asyncio.CancelledError:
            if not self.is_revoked or task.uncancel():
                raise
            return {"type": "http.disconnect"}
        finally:
            self._waiting.discard(task)

    async def send(self, send: Send, message: Message) -> None:
        """Send a message, unless the request was revoked. Responses of a known length are sent to their end."""
        if self.is_revoked and (self._is_stream or not self._has_started):
            return
        if message["type"] == "http.response.start":
            self._has_started = True
            self._is_stream = all(name.lower() != b"content-length" for name, _ in message.get("headers", ()))
        elif not message.get("more_body", False):
            self._has_ended = True
        await send(message)

    async def finish(self, scope: Scope, receive: Receive, send: Send) -> None:
        """End the response of a revoked request."""
        if not self._has_started:
            await error_response(*self._refusal)(scope, receive, send)
        elif not self._has_ended and EVENT_STREAM not in scope:
            await send(END)
