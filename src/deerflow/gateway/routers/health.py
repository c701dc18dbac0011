"""/health and what LangGraph clients ask of a server."""

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow import __version__

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """A server that answers."""

    status: str = "healthy"
    service: str = "deerflow"
    version: str = __version__


@router.get("/health")
async def health() -> Health:
    """Whether the server answers."""
    return Health()
