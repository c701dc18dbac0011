"""Dependencies of routes, and a path converter.

All dependencies are async functions: FastAPI runs sync ones in a thread, for every request.
"""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor

from deerflow.accounts.model import Credential
from deerflow.domain.errors import Forbidden, ReadOnlyAccess
from deerflow.domain.identity import LOCAL_USER, Need, Principal
from deerflow.gateway.middleware.authentication import CREDENTIAL, GUARD, GuardedRequest
from deerflow.harness import Harness
from deerflow.persistence.queries.audit import AuditEvent, AuditKind
from deerflow.teams.model import ThreadAccess


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

READ_ONLY = "this thread is shared with you for reading only"
OWNER_ONLY = "only the owner of the thread can do this"


async def find_thread_access(request: Request, harness: HarnessDep, user: CurrentUser) -> ThreadAccess | None:
    """Return the right of the current user to the thread in the path, if its owner shares it with them.

    It is read again while the request is open: a stream ends when the grant does.
    """
    if get_credential(request) is None and user == LOCAL_USER:
        return None  # without a login, there are no other people
    find = partial(harness.resources.grants.find_thread_access, request.path_params["thread_id"], user)
    found = await find()
    guard: GuardedRequest | None = request.scope.get(GUARD)
    if found is not None and guard is not None:

        async def is_unchanged() -> bool:
            return await find() == found

        guard.check_access = is_unchanged
    return found


SharedAccess = Annotated[ThreadAccess | None, Depends(find_thread_access)]


async def get_thread_reader(user: CurrentUser, shared: SharedAccess) -> Principal:
    """Return the owner of the thread in the path if it is shared with the current user, else the current user.

    Services then find it, or raise `NotFound`.
    """
    return user if shared is None else Principal(shared.owner)


async def get_thread_writer(user: CurrentUser, shared: SharedAccess) -> Principal:
    """Return the same as `get_thread_reader`; refuse people with whom the thread is shared for reading."""
    if shared is not None and shared.access != "write":
        raise ReadOnlyAccess(READ_ONLY)
    return await get_thread_reader(user, shared)


async def get_thread_owner(user: CurrentUser, shared: SharedAccess) -> Principal:
    """Return the current user; refuse people with whom the thread is shared."""
    if shared is not None:
        raise Forbidden(OWNER_ONLY) if shared.access == "write" else ReadOnlyAccess(READ_ONLY)
    return user


ThreadReader = Annotated[Principal, Depends(get_thread_reader)]
"""User of routes that read a thread, as whom services act: the owner, if it is shared with the current user."""
ThreadWriter = Annotated[Principal, Depends(get_thread_writer)]
"""The same for routes that write."""
ThreadOwner = Annotated[Principal, Depends(get_thread_owner)]
"""User of routes that are for the owner of a thread alone."""


async def refresh_shares(harness: HarnessDep, user: CurrentUser) -> None:
    """Read what others share with the current user; routes of agents depend on it."""
    await harness.core.shares.refresh(user.user_id)


class PlacedSkill(NamedTuple):
    """Custom skill that a route names: whose it is, and what its owner calls it."""

    owner: str
    name: str


def find_skill(need: Need) -> Callable[[str, Harness, Principal], Coroutine[Any, Any, PlacedSkill]]:
    """Return the dependency that finds the custom skill in the path, if the current user has a right to it."""

    async def find(name: str, harness: HarnessDep, user: CurrentUser) -> PlacedSkill:
        return PlacedSkill(*await harness.core.shares.resolve(user.user_id, "skill", name, need))

    return find


SkillToRead = Annotated[PlacedSkill, Depends(find_skill("read"))]
SkillToWrite = Annotated[PlacedSkill, Depends(find_skill("write"))]
OwnSkill = Annotated[PlacedSkill, Depends(find_skill("own"))]


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
