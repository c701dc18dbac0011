"""/threads/{thread_id}/previews: web pages an agent made, running where they can do nothing

A frame of our own page has to hold them, but everything a frame is given by that page (`srcdoc`, a blob) inherits its
strict policy, under which no script of theirs would run. So they come from here, with a policy of their own: scripts
and styles that are in the file, no origin, and no way to reach anything.

A page may always send its own frame elsewhere, and only the document around the frame can forbid it. So what comes from
here is that document, and the file is the text of a frame within, which may show nothing else.
"""

from base64 import b64encode
from html import escape
from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from deerflow.domain.errors import FileProblem
from deerflow.domain.threads import ThreadRecord
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.harness import Harness

router = APIRouter(tags=["files"])

DRAWING = ".svg"
SHOWN = frozenset({".htm", ".html", ".xhtml", DRAWING})
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
        "frame-src 'none'",
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
AROUND = """<!doctype html>
<meta charset="utf-8">
<title>Preview</title>
<style>html, body, iframe, img {{ display: block; width: 100%; height: 100%; margin: 0; border: 0 }}</style>
{shown}
"""
FRAME = '<iframe title="Preview" srcdoc="{text}"></iframe>'
PICTURE = '<img alt="" style="object-fit: contain" src="data:image/svg+xml;base64,{text}">'
IN_PLACE = '<base href="about:srcdoc">'
"""Makes links within a page lead there, and not to the document around it."""


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
    return Response(around(kind, content), media_type="text/html", headers=HEADERS)


def around(kind: str, content: bytes) -> str:
    """A document that shows a file and nothing else, whatever that tries."""
    if kind == DRAWING:
        shown = PICTURE.format(text=b64encode(content).decode())
    else:
        shown = FRAME.format(text=escape(IN_PLACE + content.decode(errors="replace")))
    return AROUND.format(shown=shown)
