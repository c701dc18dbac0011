"""The web page: built files, and one document for every address of the application."""

from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

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
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
# Diagrams are drawn in a document without an origin: what draws them writes style sheets, and can reach nothing else.
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
SHARED = "share/"
"""Where threads are for whoever has a link: nothing that a search engine should know."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class HashedFiles(StaticFiles):
    """Files whose names change with their content: a browser may keep them for good."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response: Response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Access-Control-Allow-Origin"] = "*"  # a document without an origin asks from elsewhere
        return response


def add_page(app: FastAPI, static: Path = STATIC) -> None:
    """Serve the page at every address that is not the API's."""
    app.mount("/assets", HashedFiles(directory=static / "assets", check_dir=False))

    @app.get("/{path:path}", include_in_schema=False)
    async def page(path: str, request: Request) -> Response:
        if path.startswith(("api/", "assets/")):
            raise HTTPException(404, f"there is nothing at {request.url.path}")
        file = static / path
        # Only what the build put at the top (icons and the like); everything else is an address of the application.
        if "/" not in path and path and file.is_file():
            policy = {"Content-Security-Policy": DIAGRAM_POLICY} if path == DIAGRAM else {}
            return FileResponse(file, headers=HEADERS | policy)
        if not (static / "index.html").is_file():
            return PlainTextResponse(NOT_BUILT, status_code=503)
        unlisted = {"X-Robots-Tag": "noindex, nofollow"} if path.startswith(SHARED) else {}
        return FileResponse(static / "index.html", headers=HEADERS | unlisted)
