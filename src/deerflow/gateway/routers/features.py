"""/features"""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict

router = APIRouter(tags=["server"])


class Features(BaseModel):
    """Which of the parts that a client can do without this server has."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"uploads": True, "suggestions": True, "input_polish": True}}
    )

    uploads: bool
    suggestions: bool
    input_polish: bool


def known_paths(request: Request) -> frozenset[str]:
    """The addresses of this server."""
    return frozenset(getattr(route, "path", "") for route in request.app.routes)


@router.get("/features")
async def read_features(paths: Annotated[frozenset[str], Depends(known_paths)]) -> Features:
    """What this server offers, so that nobody has to ask for what it has not."""
    return Features(
        uploads="/api/threads/{thread_id}/uploads" in paths,
        suggestions="/api/threads/{thread_id}/suggestions" in paths,
        input_polish="/api/input-polish" in paths,
    )
