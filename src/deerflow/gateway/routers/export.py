"""/threads/{thread_id}/export"""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.runtime.export import ExportFormat

router = APIRouter(tags=["threads"])

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cache-Control": "no-store",
}
CONTENT = {
    "text/markdown": {"example": "# Plan my trip\n\n## You\n\nA week in Rome\n\n## DeerFlow\n\nGladly.\n"},
    "application/json": {"example": {"format": "deerflow.thread", "version": 1, "messages": [], "runs": []}},
}


@router.get(
    "/threads/{thread_id}/export",
    summary="A thread as one file",
    response_class=StreamingResponse,
    responses={200: {"description": "The thread, as an attachment.", "content": CONTENT}},
)
async def export_thread(
    thread_id: str,
    harness: TheHarness,
    who: Who,
    form: Annotated[ExportFormat, Query(alias="format", description="For people or for programs.")] = "markdown",
) -> StreamingResponse:
    """A thread with everything that was said in it: Markdown to read, or JSON with all messages, runs and files."""
    export = await harness.resources.exporter.export(thread_id, who, form)
    disposition = f"attachment; filename*=UTF-8''{quote(export.name, safe='')}"
    headers = {**HEADERS, "Content-Disposition": disposition}
    return StreamingResponse(export.content, media_type=export.media_type, headers=headers)
