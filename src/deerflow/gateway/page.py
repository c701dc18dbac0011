"""Web page: static files, and one document for every address of the application."""

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
            policy = {"Content-Security-Policy": DIAGRAM_POLICY} if path == DIAGRAM else {}
            return FileResponse(file, headers=HEADERS | policy)
        if not (static / "index.html").is_file():
            return PlainTextResponse(NOT_BUILT, status_code=503)
        unlisted = {"X-Robots-Tag": "noindex, nofollow"} if path.startswith(SHARED) else {}
        return FileResponse(static / "index.html", headers=HEADERS | unlisted)
