"""/health, /ready and /metrics: for whoever looks after a server"""

from typing import Literal

import orjson
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from deerflow import __version__
from deerflow.gateway.dependencies import TheHarness
from deerflow.gateway.errors import CODES

router = APIRouter(tags=["health"])

FIGURES = "text/plain; version=0.0.4; charset=utf-8"


class Health(BaseModel):
    """A server that answers."""

    status: str = "healthy"
    service: str = "deerflow"
    version: str = __version__


class PartReport(BaseModel):
    """Whether a part of the server works, and what there is to say of it."""

    works: bool
    detail: str


class Readiness(BaseModel):
    """A server that can do its work."""

    status: Literal["ready"] = "ready"
    parts: dict[str, PartReport]


@router.get("/health")
async def health() -> Health:
    """Whether the server answers."""
    return Health()


@router.get("/ready", response_model=Readiness)
async def ready(harness: TheHarness) -> Response:
    """Whether the server can do its work: its database, its sandbox and its disk. 503 says which of them fails."""
    found = await harness.vitals.look()
    parts = {name: PartReport(works=part.works, detail=part.detail) for name, part in found.items()}
    failing = [f"{name}: {part.detail}" for name, part in parts.items() if not part.works]
    if not failing:
        return Response(Readiness(parts=parts).model_dump_json(), media_type="application/json")
    answer = {
        "detail": "; ".join(failing),
        "error": "NotReady",
        "status": "not ready",
        "parts": {name: part.model_dump() for name, part in parts.items()},
    }
    return Response(orjson.dumps(answer), CODES["NotReady"].status, media_type="application/json")


@router.get("/metrics", response_class=Response)
async def metrics(harness: TheHarness) -> Response:
    """Figures for Prometheus; nothing of what people say or whose threads are whose."""
    return Response(await harness.vitals.figures(), media_type=FIGURES)
