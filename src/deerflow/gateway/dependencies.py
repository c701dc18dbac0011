"""What routes ask for by type."""

from typing import Annotated

from fastapi import Depends, Request

from deerflow.domain.principal import LOCAL_USER, Principal
from deerflow.harness import Harness


def harness_of(request: Request) -> Harness:
    """The harness this application serves."""
    harness: Harness = request.app.state.harness
    return harness


def who_asks() -> Principal:
    """The local person: the server is reachable from this machine only."""
    return LOCAL_USER


TheHarness = Annotated[Harness, Depends(harness_of)]
Who = Annotated[Principal, Depends(who_asks)]
