"""/features: what this server offers that not every one does"""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict
from starlette.routing import BaseRoute, Route

router = APIRouter(tags=["info"])

OFFERED_BY = {
    "search": ("GET", "/api/search"),
    "token_usage": ("GET", "/api/threads/{thread_id}/token-usage"),
    "artifact_bundles": ("GET", "/api/threads/{thread_id}/artifacts.zip"),
    "artifact_editing": ("PUT", "/api/threads/{thread_id}/artifacts/{path:file}"),
}
"""The routes by which a server has a feature."""


class Features(BaseModel):
    """What the server offers."""

    model_config = ConfigDict(json_schema_extra={"example": {"features": {"search": True, "token_usage": False}}})

    features: dict[str, bool]


@router.get("/features", summary="What the server offers")
async def list_features(request: Request) -> Features:
    """What a client may ask this server for, so that it need not try."""
    there = {pair for route in request.app.routes for pair in calls_of(route)}
    return Features(features={name: call in there for name, call in OFFERED_BY.items()})


def calls_of(route: BaseRoute) -> list[tuple[str, str]]:
    """The methods of a route, each with its path."""
    if not isinstance(route, Route):
        return []
    return [(method, route.path) for method in route.methods or ()]
