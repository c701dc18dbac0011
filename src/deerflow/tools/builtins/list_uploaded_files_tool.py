"""`list_uploaded_files`: what the user gave to the thread."""

from langchain.tools import ToolRuntime

from deerflow.domain.context import RunContext
from deerflow.domain.files import UPLOADS
from deerflow.domain.ledger import read_only
from deerflow.tools.run import current_run
from deerflow.tools.wording import in_words, one_line

MAX_SHOWN = 100


@read_only
async def list_uploaded_files(runtime: ToolRuntime[RunContext]) -> str:
    """List every file the user has uploaded in this conversation, newest first, with size and path."""
    uploads = await current_run(runtime).files.list(UPLOADS)
    if not uploads:
        return "The user has not uploaded any file."
    newest = sorted(uploads, key=lambda entry: (entry.modified_at, entry.path), reverse=True)
    lines = [f"- {one_line(entry.path)} ({in_words(entry.size)})" for entry in newest[:MAX_SHOWN]]
    if len(newest) > MAX_SHOWN:
        lines.append(f"… and {len(newest) - MAX_SHOWN} older ones in {UPLOADS}")
    return "\n".join(lines)
