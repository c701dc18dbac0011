"""/threads/{thread_id}/artifacts: files an agent made, which nobody vouches for"""

import codecs
import re
from pathlib import PurePosixPath
from urllib.parse import quote

from fastapi import APIRouter
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.tools.builtins.view_image_tool import recognise

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
LOOKED_AT = 64 * 1024
MARKUP = frozenset(
    {".htm", ".html", ".shtml", ".xht", ".xhtml", ".svg", ".svgz", ".xml", ".xsl", ".xslt", ".mht", ".mhtml"}
)
NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


class FilePath(PathConvertor):
    """What `{path:path}` takes, and line breaks, for files can have them in their names."""

    regex = "(?s:.*)"


register_url_convertor("file", FilePath())
router = APIRouter(prefix="/threads/{thread_id}/artifacts", tags=["artifacts"])


@router.get("/{path:file}", response_class=Response)
async def get_artifact(thread_id: str, path: str, harness: TheHarness, who: Who, download: bool = False) -> Response:
    """A file; `path` is as the agent says it, without its first slash. Only pictures and text are shown in place."""
    thread = await harness.threads.get(thread_id, who)
    content = await harness.files_of(thread).read(f"/{path}")
    name = PurePosixPath(path).name
    harmless = None if download else harmless_type(name, content)
    disposition = f"{'inline' if harmless else 'attachment'}; filename*=UTF-8''{quote(name, safe='')}"
    return Response(content, media_type=harmless or BYTES, headers={**HEADERS, "Content-Disposition": disposition})


def harmless_type(name: str, content: bytes) -> str | None:
    """The type under which a browser may show the file: what its content is, unless its name asks for more."""
    if PurePosixPath(name).suffix.lower() in MARKUP:
        return None
    return recognise(content) or (TEXT if is_text(content[:LOOKED_AT]) else None)


def is_text(beginning: bytes) -> bool:
    """Whether a file that begins so can be read by people; a character may be cut off at the end."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return not NOT_TEXT.search(text)
