"""OpenAPI document of the server, and its Swagger UI page at /api/docs."""

import asyncio
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from deerflow.gateway.errors import Problem, declared_errors
from deerflow.gateway.examples import PATH_EXAMPLES
from deerflow.gateway.routes import include_all

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

    def build_document() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = FastAPI(responses=declared_errors())
            include_all(described)
            app.openapi_schema = get_openapi(title=app.title, version=app.version, routes=described.routes)
            schemas = {**app.openapi_schema["components"]["schemas"], Problem.__name__: Problem.model_json_schema()}
            app.openapi_schema["components"]["schemas"] = dict(sorted(schemas.items()))
            add_path_examples(app.openapi_schema)
        return app.openapi_schema

    app.openapi = build_document  # type: ignore[method-assign]  # the framework's documented way

    @app.get(OPENAPI_URL, include_in_schema=False)
    async def get_openapi_document() -> JSONResponse:
        return JSONResponse(await asyncio.to_thread(build_document))  # it takes half a second


def add_api_docs(app: FastAPI) -> None:
    """Serve Swagger UI from this server, without a CDN."""

    @app.get(DOCS_URL, include_in_schema=False)
    async def get_api_docs() -> HTMLResponse:
        return HTMLResponse(DOCS_PAGE, headers=DOCS_HEADERS)

    @app.get(f"{DOCS_URL}/{{name}}", include_in_schema=False)
    async def get_api_docs_file(name: str) -> Response:
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
