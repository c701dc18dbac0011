"""`list_uploaded_files`: what the user gave to the thread."""

from collections.abc import Iterator, Sequence

from langchain.tools import ToolRuntime

from deerflow.domain.context import RunContext
from deerflow.domain.files import UPLOADS
from deerflow.domain.ledger import read_only
from deerflow.domain.uploads import UploadedFile
from deerflow.tools.outlines import describe_markdown, outline_lines
from deerflow.tools.run import current_run
from deerflow.tools.wording import in_words, one_line

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
    uploads = await uploads_in(current_run(runtime))
    if not uploads:
        return "The user has not uploaded any file."
    most = max(1, min(max_results, MAX_SHOWN))
    lines = [line for file in uploads[:most] for line in describe(file, wants_outline(file, include_outline))]
    if len(uploads) > most:
        lines.append(f"… and {len(uploads) - most} older ones in {UPLOADS}")
    return "\n".join(lines)


async def uploads_in(run: RunContext) -> Sequence[UploadedFile]:
    """The uploads of the thread, newest first."""
    if run.uploads is not None:
        return await run.uploads.list()
    found = [
        UploadedFile(entry.path.removeprefix(f"{UPLOADS}/"), entry.size, entry.modified_at)
        for entry in await run.files.list(UPLOADS)
    ]
    return sorted(found, key=lambda file: (file.modified, file.filename), reverse=True)


def wants_outline(file: UploadedFile, include: bool | list[str]) -> bool:
    """Whether the model wants to see how a file is built."""
    return include if isinstance(include, bool) else bool({file.filename, file.path} & set(include))


def describe(file: UploadedFile, with_outline: bool) -> Iterator[str]:
    """A line for the file, one for what was made from it, and its headings."""
    yield f"- {one_line(file.path)} ({in_words(file.size)})"
    if file.markdown_path is not None:
        yield f"  {describe_markdown(file.markdown_path, file.outline)}"
    elif file.note is not None:
        yield f"  no Markdown of it: {one_line(file.note)}"
    if with_outline and file.outline is not None:
        yield from (f"  {line}" for line in outline_lines(file.outline, MAX_HEADINGS))
