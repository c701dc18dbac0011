"""`view_image`: lets a model with eyes look at a picture."""

from typing import Any

from langchain.tools import ToolRuntime
from langgraph.types import Command

from deerflow.domain.context import RunContext
from deerflow.domain.errors import FileProblem
from deerflow.domain.ledger import read_only
from deerflow.tools.run import answer, current_run
from deerflow.tools.wording import in_words

MAX_IMAGE_BYTES = 20 * 1024 * 1024
LONGEST_SIGNATURE = 12


@read_only
async def view_image(image_path: str, runtime: ToolRuntime[RunContext]) -> Command[Any]:
    """Look at an image file (PNG, JPEG, GIF or WebP, up to 20 MB). You see it in your next step.

    Args:
        image_path: Absolute path below /mnt/user-data.
    """
    files = current_run(runtime).files
    size = (await files.stat(image_path)).size
    if size > MAX_IMAGE_BYTES:
        limit = in_words(MAX_IMAGE_BYTES)
        raise FileProblem(f"{image_path!r} has {in_words(size)}, more than {limit}; make a smaller copy and view that")
    mime_type = recognise(await files.read(image_path, limit=LONGEST_SIGNATURE))
    if mime_type is None:
        raise FileProblem(f"{image_path!r} is not a PNG, JPEG, GIF or WebP image; convert it and view the result")
    viewed = {image_path: {"mime_type": mime_type, "size": size}}
    return answer(runtime, f"The image ({mime_type}, {in_words(size)}) follows.", viewed_images=viewed)


def recognise(beginning: bytes) -> str | None:
    """The type of the image that begins so, whatever its name says."""
    if beginning.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if beginning.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if beginning.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP":
        return "image/webp"
    return None
