"""What routes ask for by type, and what a part of a path may be.

All of it is asynchronous: FastAPI takes what is not to a thread, for every request.
"""

from typing import Annotated

from fastapi import Depends, Request
from starlette.convertors import PathConvertor, register_url_convertor

from deerflow.domain.errors import Forbidden
from deerflow.domain.principal import LOCAL_USER, Principal
from deerflow.harness import Harness


async def harness_of(request: Request) -> Harness:
    """The harness this application serves."""
    harness: Harness = request.app.state.harness
    return harness


async def who_asks() -> Principal:
    """The local person: the server is reachable from this machine only."""
    return LOCAL_USER


TheHarness = Annotated[Harness, Depends(harness_of)]
Who = Annotated[Principal, Depends(who_asks)]


async def admin_only(who: Who) -> Principal:
    """Whoever asks, if they may change what concerns everybody."""
    if not who.is_admin:
        raise Forbidden("only an admin may do this, for it concerns everybody")
    return who


Admin = Annotated[Principal, Depends(admin_only)]


class FilePath(PathConvertor):
    """What `{path:path}` takes, and line breaks, for files can have them in their names."""

    regex = "(?s:.*)"


register_url_convertor("file", FilePath())
