"""/ok and /info: what LangGraph clients ask of a server"""

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow import __version__

router = APIRouter(tags=["info"])


class Ok(BaseModel):
    """A server that answers."""

    ok: bool = True


class Flags(BaseModel):
    """What the server offers besides threads and runs."""

    assistants: bool = True
    crons: bool = False
    langsmith: bool = False


class Info(BaseModel):
    """What the server is."""

    version: str = __version__
    flags: Flags = Flags()
    host: dict[str, str] = {"kind": "self-hosted"}


@router.get("/ok")
async def ok() -> Ok:
    """Whether the server answers."""
    return Ok()


@router.get("/info")
async def info() -> Info:
    """What the server is."""
    return Info()
