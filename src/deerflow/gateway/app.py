"""The HTTP application."""

from collections.abc import Collection

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from deerflow import __version__
from deerflow.gateway.bodies import BodyGuard, BodyLimits
from deerflow.gateway.errors import REQUEST_ID, add_error_handlers, declared_errors
from deerflow.gateway.guard import LOOPBACK, MCP, SameSiteGuard
from deerflow.gateway.mcp_door import McpDoor
from deerflow.gateway.openapi import describe
from deerflow.gateway.page import add_page
from deerflow.gateway.requests import RequestBracket
from deerflow.gateway.routers import (
    agents,
    artifacts,
    assistants,
    custom_skills,
    export,
    features,
    feedback,
    files,
    health,
    info,
    mcp,
    mcp_door,
    memory,
    messages,
    models,
    previews,
    run_events,
    runs,
    sandbox,
    search,
    shared,
    sharing,
    skills,
    store,
    suggestions,
    thread_deletion,
    threads,
    tools,
    uploads,
    usage,
    user_profile,
    web_pages,
    workspace_changes,
)
from deerflow.harness import Harness

PREFIXES = ("/api/langgraph", "/api")
"""The same routes twice: where LangGraph clients expect them, and short."""
EXPOSED = (REQUEST_ID, "content-location", "location", "x-pagination-total")
"""Headers that pages of other web sites may read, where they may ask at all."""


def create_app(harness: Harness, *, hosts: Collection[str] | None = LOOPBACK) -> FastAPI:
    """The application that serves `harness` under the names `hosts` (None: any)."""
    app = FastAPI(
        title="DeerFlow",
        version=__version__,
        docs_url="/api/docs",
        openapi_url="/api/openapi.json",
        responses=declared_errors(),
    )
    app.state.harness = harness
    limits = body_limits(harness)
    app.state.mcp_door = McpDoor(harness, limits)
    add_middlewares(app, harness, hosts, limits)
    add_error_handlers(app)
    describe(app)
    app.include_router(health.router)
    app.include_router(mcp_door.router)
    for prefix in PREFIXES:
        in_schema = prefix == "/api"
        for part in (threads, thread_deletion, messages, runs, run_events, workspace_changes, assistants, store, info):
            app.include_router(part.router, prefix=prefix, include_in_schema=in_schema)
    for own in (
        models,
        agents,
        custom_skills,  # before skills, which would take these paths for names
        skills,
        artifacts,
        files,
        previews,
        uploads,
        sandbox,
        search,
        usage,
        feedback,
        export,
        sharing,
        shared,
        suggestions,
        features,
        user_profile,
        memory,
        mcp,
        tools,
        web_pages,
    ):
        app.include_router(own.router, prefix="/api")
    add_page(app)
    return app


def body_limits(harness: Harness) -> BodyLimits:
    """What is taken in of a request."""
    settings = harness.source.current.config.gateway
    return BodyLimits(int(settings.max_body_mb * 2**20), settings.body_idle_seconds, settings.body_total_seconds)


def add_middlewares(app: FastAPI, harness: Harness, hosts: Collection[str] | None, limits: BodyLimits) -> None:
    """What every request passes through, the innermost first."""
    settings = harness.source.current.config.gateway
    app.add_middleware(BodyGuard, limits=limits, later=(MCP,))
    app.add_middleware(SameSiteGuard, hosts=hosts, origins=settings.cors_origins)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
    app.add_middleware(RequestBracket, metrics=harness.vitals.metrics)
