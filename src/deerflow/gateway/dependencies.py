"""Dependencies of routes, and a path converter.

All dependencies are async functions: FastAPI runs sync ones in a thread, for every request.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, ClassVar

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor

from deerflow.accounts.model import Credential
from deerflow.domain.errors import Forbidden
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.gateway.middleware.authentication import CREDENTIAL
from deerflow.harness import Harness
from deerflow.persistence.queries.audit import AuditEvent, AuditKind


async def get_harness(request: Request) -> Harness:
    """Return the harness of the application."""
    harness: Harness = request.app.state.harness
    return harness


def identify_user(request: Request) -> Principal:
    """Return the user of the session or token of a request, as `AuthenticationMiddleware` has found it.

    The local user if no login is required.
    """
    credential = get_credential(request)
    return LOCAL_USER if credential is None else credential.principal


def get_credential(request: Request) -> Credential | None:
    """Return the session or token of a request; None if no login is required."""
    credential: Credential | None = request.scope.get(CREDENTIAL)
    return credential


async def get_current_user(request: Request) -> Principal:
    """Return the user who sent the request, as `app.state.identify` tells."""
    identify: Callable[[Request], Principal] = request.app.state.identify
    return identify(request)


HarnessDep = Annotated[Harness, Depends(get_harness)]
CurrentUser = Annotated[Principal, Depends(get_current_user)]


async def require_admin(who: CurrentUser) -> Principal:
    """Return the current user, if they are an admin."""
    if not who.is_admin:
        raise Forbidden("admin rights are required")
    return who


CurrentAdmin = Annotated[Principal, Depends(require_admin)]


READ_METHODS = frozenset({"GET", "HEAD"})
NAMES = ("server_name", "name", "server", "path", "tool")
"""Fields of paths and bodies that go into the audit log; they name what was changed."""


class ConfigurationRoute(APIRoute):
    """Route of a router whose changes are recorded in the audit log. They are stored in files, so there is no
    transaction that the entry could be part of: it is written before the answer.
    """

    kind: ClassVar[AuditKind]
    unrecorded: ClassVar[frozenset[str]] = frozenset()
    """Names of the functions that change nothing."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if READ_METHODS.issuperset(self.methods or ()) or self.name in self.unrecorded:
            return handle

        async def handle_and_record(request: Request) -> Response:
            response = await handle(request)
            harness, user = await get_harness(request), await get_current_user(request)
            details = {"action": self.name, **find_names(request)}
            await harness.resources.audit.record(AuditEvent(self.kind, user.user_id, user.user_id, details=details))
            return response

        return handle_and_record


def find_names(request: Request) -> Mapping[str, str]:
    """Return the names in the path of a request, and in its body if the route has read it."""
    body = getattr(request, "_json", None)  # reading it again could fail, or wait for the client
    given = {**(body if isinstance(body, dict) else {}), **request.path_params}
    return {name: given[name] for name in NAMES if isinstance(given.get(name), str)}


class FilePath(PathConvertor):
    """Path converter like `{path:path}` that also accepts line breaks, which file names may contain."""

    regex = "(?s:.*)"


register_url_convertor("file", FilePath())
