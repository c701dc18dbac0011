"""HTTP application of the gateway, its OpenAPI document, and the files of the web page."""

import asyncio
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from deerflow import __version__
from deerflow.config.load import LoadedConfig
from deerflow.gateway.dependencies import identify_user
from deerflow.gateway.errors import REQUEST_ID, Problem, add_error_handlers, declared_errors
from deerflow.gateway.examples import PATH_EXAMPLES
from deerflow.gateway.mcp_endpoint import McpEndpoint
from deerflow.gateway.middleware.authentication import AuthenticationMiddleware, RequestOrigins, SandboxedPrograms
from deerflow.gateway.middleware.body_limits import LOOPBACK, MCP, BodyLimitMiddleware, BodyLimits, SameOriginMiddleware
from deerflow.gateway.middleware.request_context import AbandonedRequestMiddleware, RequestContextMiddleware
from deerflow.gateway.routes import create_routes, include_all
from deerflow.harness import Harness

TITLE = "DeerFlow"
OPENAPI_URL = "/api/openapi.json"
DOCS_URL = "/api/docs"
SWAGGER_PACKAGE = "fastapi_offline"
"""Package that contains the files of Swagger UI."""
SWAGGER_FILES = frozenset({"swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"})
INIT_SCRIPT = "init.js"
INIT = f'SwaggerUIBundle({{url: "{OPENAPI_URL}", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null}});\n'
DOCS_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>DeerFlow API</title>
<link rel="stylesheet" href="{DOCS_URL}/swagger-ui.css">
<link rel="icon" href="{DOCS_URL}/favicon.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{DOCS_URL}/swagger-ui-bundle.js"></script>
<script src="{DOCS_URL}/{INIT_SCRIPT}"></script>
</body>
</html>
"""
DOCS_HEADERS = {
    # Swagger UI sets style attributes and has images in data URLs. Nothing is loaded from other hosts.
    "Content-Security-Policy": "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_openapi(app: FastAPI) -> None:
    """Let the application generate its OpenAPI document with examples."""
    app.openapi = build_openapi  # type: ignore[method-assign]  # the framework's documented way
    # FastAPI keeps the last 4,096 endpoints: a function that refers to `app` would keep it, and with it its harness.
    app.get(OPENAPI_URL, include_in_schema=False)(get_openapi_document)


@cache
def build_openapi() -> dict[str, Any]:
    """Return the OpenAPI document, which is the same for all applications of a process."""
    described = FastAPI(responses=declared_errors())
    include_all(described)
    document = get_openapi(title=TITLE, version=__version__, routes=described.routes)
    schemas = {**document["components"]["schemas"], Problem.__name__: Problem.model_json_schema()}
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    add_path_examples(document)
    return document


async def get_openapi_document() -> JSONResponse:
    """Return the OpenAPI document."""
    return JSONResponse(await asyncio.to_thread(build_openapi))  # it takes half a second


def add_api_docs(app: FastAPI) -> None:
    """Serve Swagger UI from this server, without a CDN."""
    app.get(DOCS_URL, include_in_schema=False)(get_api_docs)
    app.get(f"{DOCS_URL}/{{name}}", include_in_schema=False)(get_api_docs_file)


async def get_api_docs() -> HTMLResponse:
    """Return the page of Swagger UI."""
    return HTMLResponse(DOCS_PAGE, headers=DOCS_HEADERS)


async def get_api_docs_file(name: str) -> Response:
    """Return a script or style of Swagger UI."""
    if name == INIT_SCRIPT:
        return Response(INIT, media_type="text/javascript", headers=DOCS_HEADERS)
    if name not in SWAGGER_FILES:
        raise HTTPException(404, f"no file {name!r}")
    return FileResponse(str(files(SWAGGER_PACKAGE) / "static" / name), headers=DOCS_HEADERS)


def add_path_examples(document: dict[str, Any]) -> None:
    """Add an example to each path parameter."""
    for method, path, parameter in path_parameters(document):
        name = parameter["name"]
        prefix = truncate_path(path, name)
        value = next(filter(None, map(PATH_EXAMPLES.get, (f"{method} {prefix}", prefix, name))), None)
        if value is not None and "example" not in parameter:
            parameter["example"] = value


def path_parameters(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path parameters of all operations, each with its method and path."""
    found = (
        (method.upper(), path, parameter)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
    )
    return (each for each in found if each[2]["in"] == "path")


def truncate_path(path: str, name: str) -> str:
    """Return the path up to the parameter `name`."""
    return path[: path.index(f"{{{name}}}") + len(name) + 2]


STATIC = Path(__file__).parent / "static"
NOT_BUILT = "The web page has not been built. Run `make web`, then reload."
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
# Diagrams are rendered in a document without an origin: the renderer needs inline styles, and has no network access.
DIAGRAM = "diagram.html"
DIAGRAM_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-scripts",
    ]
)
# A web page that is being written is shown in a document without an origin, in which only our script runs.
LIVE_PREVIEW = "live.html"
LIVE_PREVIEW_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "font-src data:",
        "frame-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-scripts",
    ]
)
FRAME_POLICIES = MappingProxyType({DIAGRAM: DIAGRAM_POLICY, LIVE_PREVIEW: LIVE_PREVIEW_POLICY})
SHARED = "share/"
"""Path of shared threads, which search engines must not index."""
MAX_NAME_BYTES = 255
"""Length of the longest name that file systems take."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class HashedFiles(StaticFiles):
    """Static files with content hashes in their names, which browsers may cache forever."""

    async def check_config(self) -> None:
        """Accept a missing folder: before the page is built, no file is found."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response: Response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Access-Control-Allow-Origin"] = "*"  # for documents without an origin
        return response


def add_page(app: FastAPI, static: Path = STATIC) -> None:
    """Serve the page at every path that does not belong to the API."""
    app.mount("/assets", HashedFiles(directory=static / "assets", check_dir=False))

    @app.get("/{path:path}", include_in_schema=False)
    async def page(path: str, request: Request) -> Response:
        if path.startswith(("api/", "assets/")):
            raise HTTPException(404, f"nothing found at {request.url.path}")
        if any(len(name.encode()) > MAX_NAME_BYTES for name in path.split("/")):
            raise HTTPException(404, "a name in the path is too long")
        file = static / path
        # Only files at the top of the build, such as icons; every other path is an address of the application.
        if "/" not in path and path and file.is_file():
            policy = {"Content-Security-Policy": FRAME_POLICIES[path]} if path in FRAME_POLICIES else {}
            return FileResponse(file, headers=HEADERS | policy)
        if not (static / "index.html").is_file():
            return PlainTextResponse(NOT_BUILT, status_code=503)
        unlisted = {"X-Robots-Tag": "noindex, nofollow"} if path.startswith(SHARED) else {}
        return FileResponse(static / "index.html", headers=HEADERS | unlisted)


EXPOSED_HEADERS = (REQUEST_ID, "content-location", "location", "x-pagination-total")
"""Response headers that pages of the configured origins may read."""


def create_app(harness: Harness, *, hosts: Collection[str] | None = LOOPBACK, requires_login: bool = False) -> FastAPI:
    """Return the application that serves `harness` under the host names `hosts` (None: any).

    A login is required if there is an account, and always with `requires_login`.
    """
    app = FastAPI(
        title=TITLE,
        version=__version__,
        docs_url=None,  # the pages of the framework load their scripts from a CDN
        redoc_url=None,
        openapi_url=None,  # served by `add_openapi`
    )
    app.state.harness = harness
    if requires_login:
        harness.resources.authenticator.is_login_required = True
    app.state.identify = identify_user
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


def shares_network(loaded: LoadedConfig) -> bool:
    """Return whether any program of agents has the network of this machine."""
    servers = loaded.extensions.mcp_servers.values()
    return (
        loaded.config.sandbox.network == "full"
        or any(agent.network for agent in loaded.config.acp_agents.values())
        or any(server.network_access is True for server in servers)
    )


def add_middlewares(app: FastAPI, harness: Harness, hosts: Collection[str] | None, limits: BodyLimits) -> None:
    """Add the middlewares of every request, the innermost first."""
    settings = harness.core.source.current.config.gateway
    app.add_middleware(AbandonedRequestMiddleware)
    app.add_middleware(BodyLimitMiddleware, limits=limits, exempt_paths=(MCP,))
    config = harness.core.source.current.config
    app.state.channels_changed = asyncio.Event()
    app.state.request_origins = RequestOrigins(config.server.trusted_proxies, config.users.secure_cookies == "always")
    app.add_middleware(
        AuthenticationMiddleware,
        authenticator=harness.resources.authenticator,
        quotas=harness.resources.quotas,
        origins=app.state.request_origins,
        programs=SandboxedPrograms(harness.core.source.settings(shares_network), harness.resources.authenticator),
    )
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
