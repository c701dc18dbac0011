"""Dependencies of routes, and a path converter.

All dependencies are async functions: FastAPI runs sync ones in a thread, for every request.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from starlette.convertors import PathConvertor, register_url_convertor

from deerflow.accounts.model import Credential
from deerflow.domain.errors import Forbidden
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.gateway.middleware.authentication import CREDENTIAL
from deerflow.harness import Harness


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


class FilePath(PathConvertor):
    """Path converter like `{path:path}` that also accepts line breaks, which file names may contain."""

    regex = "(?s:.*)"


register_url_convertor("file", FilePath())
