"""HTTP application of the gateway."""

from collections.abc import Collection

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from deerflow import __version__
from deerflow.gateway.dependencies import identify_local_user
from deerflow.gateway.errors import REQUEST_ID, add_error_handlers
from deerflow.gateway.mcp_endpoint import McpEndpoint
from deerflow.gateway.middleware.body_limits import BodyLimitMiddleware, BodyLimits
from deerflow.gateway.middleware.request_context import AbandonedRequestMiddleware, RequestContextMiddleware
from deerflow.gateway.middleware.same_origin import LOOPBACK, MCP, SameOriginMiddleware
from deerflow.gateway.openapi import add_api_docs, add_openapi
from deerflow.gateway.page import add_page
from deerflow.gateway.routes import create_routes
from deerflow.harness import Harness

EXPOSED_HEADERS = (REQUEST_ID, "content-location", "location", "x-pagination-total")
"""Response headers that pages of the configured origins may read."""


def create_app(harness: Harness, *, hosts: Collection[str] | None = LOOPBACK) -> FastAPI:
    """Return the application that serves `harness` under the host names `hosts` (None: any)."""
    app = FastAPI(
        title="DeerFlow",
        version=__version__,
        docs_url=None,  # the pages of the framework load their scripts from a CDN
        redoc_url=None,
        openapi_url=None,  # served by `add_openapi`
    )
    app.state.harness = harness
    app.state.identify = identify_local_user
    limits = read_body_limits(harness)
    app.state.mcp_endpoint = McpEndpoint(harness, limits)
    add_middlewares(app, harness, hosts, limits)
    add_error_handlers(app)
    add_openapi(app)
    add_api_docs(app)
    app.router.routes += create_routes()
    add_page(app)
    return app


def read_body_limits(harness: Harness) -> BodyLimits:
    """Return the configured limits of request bodies."""
    settings = harness.core.source.current.config.gateway
    return BodyLimits(int(settings.max_body_mb * 2**20), settings.body_idle_seconds, settings.body_total_seconds)


def add_middlewares(app: FastAPI, harness: Harness, hosts: Collection[str] | None, limits: BodyLimits) -> None:
    """Add the middlewares of every request, the innermost first."""
    settings = harness.core.source.current.config.gateway
    app.add_middleware(AbandonedRequestMiddleware)
    app.add_middleware(BodyLimitMiddleware, limits=limits, exempt_paths=(MCP,))
    app.add_middleware(SameOriginMiddleware, hosts=hosts, origins=settings.cors_origins)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
        )
    app.add_middleware(RequestContextMiddleware, metrics=harness.health.metrics)
