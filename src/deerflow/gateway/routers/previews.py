"""/threads/{thread_id}/previews: web pages an agent made, running where they can do nothing

A frame of our own page has to hold them, but everything a frame is given by that page (`srcdoc`, a blob) inherits its
strict policy, under which no script of theirs would run. So they come from here, with a policy of their own: scripts
and styles that are in the file, no origin, and no way to reach anything, also by going elsewhere.
"""

from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from deerflow.domain.errors import FileProblem
from deerflow.domain.threads import ThreadRecord
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.harness import Harness

router = APIRouter(tags=["files"])

SHOWN = frozenset({".htm", ".html", ".xhtml", ".svg"})
MAX_BYTES = 16 * 1024 * 1024
POLICY = "; ".join(
    [
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline' 'unsafe-eval'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "media-src data: blob:",
        "font-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=(), display-capture=()",
    "Cache-Control": "no-store",
}


PAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page."}
}


@router.get(
    "/threads/{thread_id}/previews/{path:file}",
    response_class=Response,
    responses=PAGE,
    summary="Show a web page an agent made",
)
async def preview(thread_id: str, path: str, harness: TheHarness, who: Who) -> Response:
    """A page or drawing for a frame: its scripts run, but without an origin, and nothing can be reached from it."""
    return await preview_response(harness, await harness.threads.get(thread_id, who), path)


async def preview_response(harness: Harness, thread: ThreadRecord, path: str) -> Response:
    """A page or drawing of a thread, where it can do nothing."""
    kind = PurePosixPath(path).suffix.lower()
    if kind not in SHOWN:
        raise FileProblem(f"'/{path}' is not a web page; there are previews of {', '.join(sorted(SHOWN))}")
    content = await harness.files_of(thread).read(f"/{path}", MAX_BYTES)
    media_type = "image/svg+xml" if kind == ".svg" else "text/html"
    return Response(content, media_type=media_type, headers=HEADERS)
