"""/features: which parts this server has that not every one does"""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict
from starlette.routing import BaseRoute, Route

router = APIRouter(tags=["info"])

OFFERED_BY = {
    "uploads": ("POST", "/api/threads/{thread_id}/uploads"),
    "suggestions": ("POST", "/api/threads/{thread_id}/suggestions"),
    "input_polish": ("POST", "/api/input-polish"),
    "search": ("GET", "/api/search"),
    "token_usage": ("GET", "/api/threads/{thread_id}/token-usage"),
    "artifact_bundles": ("GET", "/api/threads/{thread_id}/artifacts.zip"),
    "artifact_editing": ("PUT", "/api/threads/{thread_id}/artifacts/{path:file}"),
}
"""The routes by which a server has a part."""


class Features(BaseModel):
    """Which of the parts that a client can do without this server has."""

    model_config = ConfigDict(json_schema_extra={"example": dict.fromkeys(OFFERED_BY, True)})

    uploads: bool
    suggestions: bool
    input_polish: bool
    search: bool
    token_usage: bool
    artifact_bundles: bool
    artifact_editing: bool


@router.get("/features", summary="What the server offers")
async def read_features(request: Request) -> Features:
    """What this server offers, so that nobody has to ask for what it has not."""
    there = {call for route in request.app.routes for call in calls_of(route)}
    return Features(**{name: call in there for name, call in OFFERED_BY.items()})


def calls_of(route: BaseRoute) -> list[tuple[str, str]]:
    """The methods of a route, each with its path."""
    if not isinstance(route, Route):
        return []
    return [(method, route.path) for method in route.methods or ()]
