"""The `list_uploaded_files` tool, and the description of converted documents for the model."""

from collections.abc import Iterator, Sequence
from html import escape
from types import MappingProxyType

from langchain.tools import ToolRuntime

from deerflow.agent_support.tools import escape_line, format_size, require_run_context
from deerflow.domain.context import RunContext
from deerflow.domain.files import UPLOADS, Outline, UploadedFile
from deerflow.domain.tools import read_only

PART_MARKERS = MappingProxyType(
    {"page": "<!-- Page N -->", "slide": "<!-- Slide number: N -->", "sheet": "## its name"}
)
MAX_LINE = 160


def format_markdown_path(path: str, outline: Outline | None) -> str:
    """Return the path and size of the Markdown of a document."""
    if outline is None:
        return f"as Markdown: {escape_line(path)}"
    size = [f"{outline.lines} lines"]
    if outline.kind is not None and outline.parts:
        plural = "" if outline.parts == 1 else "s"
        size.append(f"{outline.parts} {outline.kind}{plural}, each after a line `{PART_MARKERS[outline.kind]}`")
    return f"as Markdown: {escape_line(path)} ({', '.join(size)})"


def format_outline(outline: Outline, limit: int) -> Iterator[str]:
    """Yield the headings with their lines. Titles are untrusted and escaped."""
    for heading in outline.headings[:limit]:
        indent = "  " * heading.level
        yield f"{indent}line {heading.line}: {escape_text(heading.title)}"
    if len(outline.headings) > limit:
        yield f"  … and {len(outline.headings) - limit} more headings"
    if not outline.headings and outline.beginning:
        yield "  it has no headings and begins:"
        yield from (f"  > {escape_text(line)}" for line in outline.beginning)


def escape_text(text: str) -> str:
    """Return a line of a document, shortened and escaped."""
    return escape(escape_line(text)[:MAX_LINE], quote=False)


MAX_SHOWN = 100
MAX_HEADINGS = 50


@read_only
async def list_uploaded_files(
    runtime: ToolRuntime[RunContext], include_outline: bool | list[str] = False, max_results: int = 20
) -> str:
    """List the files the user has uploaded in this conversation, newest first, with size and path.

    Documents (PDF, Word, Excel, HTML …) were converted to Markdown, which is named with them: `read_file` its lines.

    Args:
        include_outline: True to see the headings of documents with their line numbers, or the names of those files.
        max_results: How many files to list at most, up to 100.
    """
    uploads = await list_uploads(require_run_context(runtime))
    if not uploads:
        return "The user has not uploaded any file."
    limit = max(1, min(max_results, MAX_SHOWN))
    lines = [line for file in uploads[:limit] for line in format_file(file, wants_outline(file, include_outline))]
    if len(uploads) > limit:
        lines.append(f"… and {len(uploads) - limit} older ones in {UPLOADS}")
    return "\n".join(lines)


async def list_uploads(run: RunContext) -> Sequence[UploadedFile]:
    """Return the uploads of the thread, newest first."""
    if run.uploads is not None:
        return await run.uploads.list()
    found = [
        UploadedFile(entry.path.removeprefix(f"{UPLOADS}/"), entry.size, entry.modified_at)
        for entry in await run.files.list(UPLOADS)
    ]
    return sorted(found, key=lambda file: (file.modified, file.filename), reverse=True)


def wants_outline(file: UploadedFile, include: bool | list[str]) -> bool:
    """Return True if the model requested the outline of a file."""
    return include if isinstance(include, bool) else bool({file.filename, file.path} & set(include))


def format_file(file: UploadedFile, with_outline: bool) -> Iterator[str]:
    """Yield the lines that describe a file: path, Markdown and headings."""
    yield f"- {escape_line(file.path)} ({format_size(file.size)})"
    if file.markdown_path is not None:
        yield f"  {format_markdown_path(file.markdown_path, file.outline)}"
    elif file.note is not None:
        yield f"  no Markdown of it: {escape_line(file.note)}"
    if with_outline and file.outline is not None:
        yield from (f"  {line}" for line in format_outline(file.outline, MAX_HEADINGS))
