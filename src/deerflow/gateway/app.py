"""The HTTP application."""

from collections.abc import Collection

from fastapi import FastAPI

from deerflow import __version__
from deerflow.gateway.errors import add_error_handlers
from deerflow.gateway.guard import LOOPBACK, SameSiteGuard
from deerflow.gateway.page import add_page
from deerflow.gateway.routers import (
    agents,
    artifacts,
    assistants,
    features,
    files,
    health,
    info,
    messages,
    models,
    previews,
    run_events,
    runs,
    sandbox,
    store,
    threads,
)
from deerflow.harness import Harness

PREFIXES = ("/api/langgraph", "/api")
"""The same routes twice: where LangGraph clients expect them, and short."""


def create_app(harness: Harness, *, hosts: Collection[str] | None = LOOPBACK) -> FastAPI:
    """The application that serves `harness` under the names `hosts` (None: any)."""
    app = FastAPI(title="DeerFlow", version=__version__, docs_url="/api/docs", openapi_url="/api/openapi.json")
    app.state.harness = harness
    app.add_middleware(SameSiteGuard, hosts=hosts)
    add_error_handlers(app)
    app.include_router(health.router)
    for prefix in PREFIXES:
        in_schema = prefix == "/api"
        for part in (threads, messages, runs, run_events, assistants, store, info):
            app.include_router(part.router, prefix=prefix, include_in_schema=in_schema)
    for own in (models, agents, artifacts, files, previews, sandbox, features):
        app.include_router(own.router, prefix="/api")
    add_page(app)
    return app
