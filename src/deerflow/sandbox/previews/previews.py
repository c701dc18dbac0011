"""Previews of Office files and zip archives.

Files of agents are untrusted, so scripts in the sandbox of the thread parse them. The output is validated, because
commands in the sandbox may have forged it, and cached next to the files of the thread by the hash of the content.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.domain.errors import (
    DamagedFile,
    EncryptedFile,
    OversizedFile,
    PreviewNotReady,
    PreviewUnavailable,
    SandboxError,
    UnsafeFile,
)
from deerflow.sandbox.file_access import FileCache, FileLocks, hash_content, open_file
from deerflow.sandbox.files.mounts import ResolvedPath
from deerflow.sandbox.jobs.jobs import SandboxJob, SandboxJobResult, SandboxJobs, SandboxJobUnavailable

MB = 1024 * 1024
MAX_FILE = 64 * MB
MAX_OUTPUT = 24 * MB
MAX_CACHED, MAX_CACHED_BYTES = 100, 128 * MB
SECONDS, MEMORY_MB = 30.0, 512
FOLDER = Path(__file__).parent
OWN_IMPORT = re.compile(r"^from deerflow\.[\w.]+ import (?:\([^)]*\)|[^\n]*)\n", re.M)
SLIDE_MODULES = ("read_package", "read_document", "slide_text", "draw_charts", "draw_shapes", "draw_slides")
REASONS = MappingProxyType(
    {"encrypted": EncryptedFile, "damaged": DamagedFile, "unsafe": UnsafeFile, "too large": OversizedFile}
)


class Slide(BaseModel):
    """A slide as a picture, with the text of its shapes."""

    title: str
    text: str
    notes: str
    is_hidden: bool
    svg: Annotated[str, Field(pattern="^<svg ")]


class SlidesPreview(BaseModel):
    """Slides of a presentation; `total` counts those that are left out as well."""

    kind: Literal["slides"]
    width: float
    height: float
    total: int
    slides: list[Slide]


class TextRun(BaseModel):
    """Text of one look, or a picture whose description is the text."""

    text: str
    bold: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    script: Literal["superscript", "subscript"] | None = None
    href: Annotated[str, Field(pattern="^(?i:https?|mailto):")] | None = None
    image: Annotated[str, Field(pattern="^(?:data:image/webp;base64,|$)")] | None = None
    """Data URL; empty if the picture cannot be shown."""
    width: int | None = None


class TextBlock(BaseModel):
    """Heading, paragraph, quotation or item of a list."""

    type: Literal["heading", "paragraph", "list", "quote"]
    runs: list[TextRun]
    level: int = 0
    is_numbered: bool = False
    align: Literal["center", "right", "justify"] | None = None
    is_rtl: bool = False


class TableCell(BaseModel):
    """Cell of a table."""

    blocks: list[TextBlock]
    column_span: int = 1
    row_span: int = 1


class TableBlock(BaseModel):
    """Table of a document."""

    type: Literal["table"]
    rows: list[list[TableCell]]


class DocumentPreview(BaseModel):
    """Text of a document."""

    kind: Literal["document"]
    blocks: list[Annotated[TextBlock | TableBlock, Field(discriminator="type")]]
    is_truncated: bool


class SheetPreview(BaseModel):
    """Cells of a sheet as they are shown; the totals count those that are left out as well."""

    name: str
    is_hidden: bool
    rows: list[list[str]]
    total_rows: int
    total_columns: int


class WorkbookPreview(BaseModel):
    """Sheets of a workbook."""

    kind: Literal["workbook"]
    sheets: list[SheetPreview]
    total_sheets: int


class ArchiveEntry(BaseModel):
    """File or folder in an archive."""

    name: str
    size: int
    packed: int
    is_folder: bool
    is_encrypted: bool


class ArchivePreview(BaseModel):
    """Files of an archive; `size` is that of all files unpacked."""

    kind: Literal["archive"]
    entries: list[ArchiveEntry]
    total: int
    size: int


AnyPreview = Annotated[SlidesPreview | DocumentPreview | WorkbookPreview | ArchivePreview, Field(discriminator="kind")]


class JobOutput(BaseModel):
    """Output of a script: a preview, or why there is none."""

    model_config = ConfigDict(extra="forbid")

    preview: AnyPreview | None = None
    reason: Literal["encrypted", "damaged", "unsafe", "too large"] = "damaged"
    text: Annotated[str, Field(max_length=1000)] = ""


@dataclass(frozen=True, slots=True)
class StoredPreview:
    """Preview as JSON; `tag` changes with the file."""

    content: bytes
    tag: str


def build_job(modules: Sequence[str], function: str, packages: tuple[str, ...] = ()) -> SandboxJob:
    """Return the job that runs the modules as one script: the sandbox does not have this package."""
    texts = [(FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in modules]
    script = "".join(OWN_IMPORT.sub("", text) for text in texts)
    call = f"\nreport({function}, sys.argv[1])\n"
    return SandboxJob(script + call, packages, seconds=SECONDS, memory_mb=MEMORY_MB, file_mb=1, output_chars=MAX_OUTPUT)


SLIDES = build_job(SLIDE_MODULES, "preview_slides", ("pptx", "PIL"))
DOCUMENT = build_job(("read_package", "read_document"), "preview_document", ("docx", "PIL"))
WORKBOOK = build_job(("read_package",), "preview_workbook")
ARCHIVE = build_job(("read_package",), "preview_archive")
JOBS = MappingProxyType(
    {
        **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".potx"), SLIDES),
        **dict.fromkeys((".docx", ".docm", ".dotx"), DOCUMENT),
        **dict.fromkeys((".xlsx", ".xlsm", ".xltx"), WORKBOOK),
        **dict.fromkeys((".zip", ".skill"), ARCHIVE),
    }
)


class Previews:
    """Previews of the files of one thread, made one at a time and cached in `folder`."""

    def __init__(self, folder: Path, jobs: SandboxJobs, locks: FileLocks, thread_id: str, user_id: str) -> None:
        self._cache = FileCache(folder, MAX_CACHED, MAX_CACHED_BYTES)
        self._jobs = jobs
        self._locks = locks
        self._thread_id = thread_id
        self._user_id = user_id

    async def get(self, resolved: ResolvedPath) -> StoredPreview:
        """Return the preview of a file.

        Raises:
            FileProblem: The file does not exist.
            PreviewUnavailable: There is no preview; the class and the text give the reason.
        """
        job = JOBS.get(PurePosixPath(resolved.path).suffix.lower())
        if job is None:
            raise PreviewUnavailable(f"no preview of {resolved.path!r}: previews support {', '.join(sorted(JOBS))}")
        tag = await asyncio.to_thread(compute_tag, resolved, job)
        async with self._locks.lock(self._thread_id, "previews"):
            output = await asyncio.to_thread(self._cache.load, tag)
            if output is None:
                output = await self._run(resolved, job)
                await asyncio.to_thread(self._cache.store, tag, output)
        return await asyncio.to_thread(unpack, output, tag, resolved)

    async def _run(self, resolved: ResolvedPath, job: SandboxJob) -> bytes:
        try:
            result = await self._jobs.run(self._thread_id, self._user_id, job, [resolved.path])
        except SandboxError as problem:
            is_temporary = isinstance(problem, SandboxJobUnavailable) and problem.is_temporary
            kind = PreviewNotReady if is_temporary else PreviewUnavailable
            raise kind(f"no preview of {resolved.path!r}: {problem}") from None
        if result.exit_code or result.truncated:
            raise explain_failure(result, resolved)
        return result.output.encode(errors="replace")


def compute_tag(resolved: ResolvedPath, job: SandboxJob) -> str:
    """Return the hash of a file and of the script.

    Raises:
        OversizedFile: The file is too large.
    """
    file = open_file(resolved)
    try:
        if file.size > MAX_FILE:
            raise OversizedFile(f"no preview of {resolved.path!r}: it is larger than {MAX_FILE // MB} MB")
        return hash_content(file, job.script.encode())
    finally:
        file.close()


def unpack(output: bytes, tag: str, resolved: ResolvedPath) -> StoredPreview:
    """Return the preview in the output of a script.

    Raises:
        PreviewUnavailable: The script refused the file, or its output is not valid.
    """
    try:
        parsed = JobOutput.model_validate_json(output)
    except ValidationError:
        raise DamagedFile(f"no preview of {resolved.path!r}: it cannot be read") from None
    if parsed.preview is None:
        raise REASONS[parsed.reason](f"no preview of {resolved.path!r}: {parsed.text or 'it cannot be read'}")
    return StoredPreview(parsed.preview.model_dump_json().encode(), tag)


def explain_failure(result: SandboxJobResult, resolved: ResolvedPath) -> PreviewUnavailable:
    """Return the error for a script that did not finish."""
    where = f"no preview of {resolved.path!r}"
    if result.timed_out:
        return OversizedFile(f"{where}: it takes longer than {SECONDS:g} s")
    if result.out_of_memory:
        return OversizedFile(f"{where}: it needs more than {MEMORY_MB} MB of memory")
    if result.truncated:
        return OversizedFile(f"{where}: it would be larger than {MAX_OUTPUT // MB} MB")
    return DamagedFile(f"{where}: it cannot be read")
