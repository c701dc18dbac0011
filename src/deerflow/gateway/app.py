"""The HTTP application."""

from collections.abc import Collection

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from deerflow import __version__
from deerflow.gateway.bodies import BodyGuard, BodyLimits
from deerflow.gateway.errors import REQUEST_ID, add_error_handlers, declared_errors
from deerflow.gateway.guard import LOOPBACK, MCP, SameSiteGuard
from deerflow.gateway.late import Kind, add_routes
from deerflow.gateway.mcp_door import McpDoor
from deerflow.gateway.openapi import describe
from deerflow.gateway.page import add_page
from deerflow.gateway.requests import RequestBracket
from deerflow.gateway.routers import features, health, info, mcp_door, models, sandbox, thread_deletion, threads
from deerflow.harness import Harness

PREFIXES = ("/api/langgraph", "/api")
"""The same routes twice: where LangGraph clients expect them, and short."""
AT_BOTH = (
    threads.router,
    thread_deletion.router,
    Kind("messages", ("/threads/*/messages",)),
    Kind("runs", ("/runs", "/threads/*/runs")),
    Kind("run_events", ("/threads/*/runs/*/events",)),
    Kind("workspace_changes", ("/threads/*/runs/*/workspace-changes",)),
    Kind("assistants", ("/assistants",)),
    Kind("store", ("/store",)),
    info.router,
)
OWN = (
    models.router,
    Kind("agents", ("/agents",)),
    Kind("custom_skills", ("/skills/custom", "/skills/install")),  # before skills, which would take these for names
    Kind("skills", ("/skills",)),
    Kind("artifacts", ("/threads/*/artifacts", "/threads/*/artifacts.zip", "/threads/*/thumbnails")),
    Kind("files", ("/threads/*/files",)),
    Kind("previews", ("/threads/*/previews",)),
    Kind("uploads", ("/threads/*/uploads",)),
    sandbox.router,
    Kind("search", ("/search",)),
    Kind("usage", ("/threads/*/token-usage", "/threads/*/runs/*/token-usage", "/console")),
    Kind("feedback", ("/threads/*/runs/*/feedback",)),
    Kind("export", ("/threads/*/export",)),
    Kind("sharing", ("/threads/*/shares",)),
    Kind("shared", ("/shared",)),
    Kind("suggestions", ("/threads/*/suggestions", "/suggestions", "/input-polish")),
    features.router,
    Kind("user_profile", ("/user-profile",)),
    Kind("memory", ("/memory",)),
    Kind("mcp", ("/mcp",)),
    Kind("tools", ("/tools", "/policy")),
    Kind("web_pages", ("/threads/*/web-pages",)),
)
"""Late: what is asked for in a conversation, on pages that are opened now and then, and by other programs."""
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
        for part in AT_BOTH:
            add_routes(app, part, prefix, in_schema=in_schema)
    for own in OWN:
        add_routes(app, own, "/api")
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
