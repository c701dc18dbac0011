"""Health checks, metrics and server information: /health, /ready, /metrics, /ok and /info."""

from typing import Literal

import orjson
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from deerflow import __version__
from deerflow.gateway.dependencies import HarnessDep
from deerflow.gateway.errors import ERRORS

router = APIRouter(tags=["health"])

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Health(BaseModel):
    """Server that is alive."""

    status: str = "healthy"
    service: str = "deerflow"
    version: str = __version__


class PartReport(BaseModel):
    """Health of a component, with details."""

    works: bool
    detail: str


class Readiness(BaseModel):
    """Server that is ready."""

    status: Literal["ready"] = "ready"
    parts: dict[str, PartReport]


@router.get("/health")
async def health() -> Health:
    """Return 200 if the server is alive."""
    return Health()


@router.get("/ready", response_model=Readiness)
async def ready(harness: HarnessDep) -> Response:
    """Check database, sandbox and disk; 503 names the failing components."""
    found = await harness.health.run()
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
    return Response(orjson.dumps(answer), ERRORS["NotReady"].status, media_type="application/json")


@router.get("/metrics", response_class=Response)
async def metrics(harness: HarnessDep) -> Response:
    """Return Prometheus metrics, without message contents or user data."""
    return Response(await harness.health.render_metrics(), media_type=METRICS_MEDIA_TYPE)


info_router = APIRouter(tags=["info"])


class Ok(BaseModel):
    """Server that is alive."""

    ok: bool = True


class Flags(BaseModel):
    """Supported parts of the LangGraph API."""

    assistants: bool = True
    crons: bool = False
    langsmith: bool = False


class Info(BaseModel):
    """Server information."""

    version: str = __version__
    flags: Flags = Flags()
    host: dict[str, str] = {"kind": "self-hosted"}


@info_router.get("/ok")
async def ok() -> Ok:
    """Return 200 if the server is alive."""
    return Ok()


@info_router.get("/info")
async def info() -> Info:
    """Return server information."""
    return Info()
