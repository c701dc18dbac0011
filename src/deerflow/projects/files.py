"""Storage of project files: one folder per project, mounted read-only in the sandboxes of its threads."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.config.sections.memory import KnowledgeConfig
from deerflow.config.sections.storage import UploadsConfig
from deerflow.domain.errors import FileProblem, InvalidRequest, TooLarge
from deerflow.domain.files import SkippedFile
from deerflow.domain.projects import PROJECT_FILES, ExtractedPassage, ExtractedText, IndexProblem, PassageUnit
from deerflow.projects.queries.projects import QueuedFile
from deerflow.sandbox.file_access import ReadableFile, open_file
from deerflow.sandbox.files.files import remove_file
from deerflow.sandbox.files.mounts import Mount, ResolvedPath, project_folder, thread_folder, write_project_marker
from deerflow.sandbox.jobs.jobs import SandboxJob, SandboxJobResult, SandboxJobs
from deerflow.sandbox.local.usage import MB, DiskQuota, DiskReservation, ThreadSpace, remove_folder
from deerflow.uploads.receiver import UploadReceiver, run_to_completion

INDEX_PREFIX = "index-"
"""Prefix of the thread id under which the files of a project are read in a sandbox."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """File that was received: its final name, the name it was sent with, and its size."""

    name: str
    original: str
    size: int


@dataclass(frozen=True, slots=True)
class ReceivedFiles:
    """Files of one request that were stored, and those that were not."""

    stored: Sequence[PublishedFile]
    skipped: Sequence[SkippedFile]


@dataclass(frozen=True, slots=True)
class ProjectFileStore:
    """Files of all projects. They belong to the server, so that no command can change them."""

    home: Path
    disk_quota: DiskQuota | None = None
    """Limit of all files of a person."""

    @asynccontextmanager
    async def receive(
        self, owner: str, project_id: str, limits: UploadsConfig, max_mb: int
    ) -> AsyncIterator[UploadReceiver]:
        """Provide a receiver for one upload. Unpublished files are removed."""
        mount = self._mount(owner, project_id)
        await asyncio.to_thread(mount.folder.mkdir, mode=0o755, parents=True, exist_ok=True)
        space = ThreadSpace([mount.folder], max_mb * MB, subject="project", setting="projects.max_mb")
        await space.measure()
        async with AsyncExitStack() as stack:
            quota = self.disk_quota
            personal = await stack.enter_async_context(quota.open_personal(owner)) if quota is not None else None
            reservation = DiskReservation(space, personal=personal)
            yield await stack.enter_async_context(UploadReceiver(mount, None, limits, reservation))

    async def publish(self, owner: str, project_id: str, receiver: UploadReceiver) -> ReceivedFiles:
        """Publish the received files under their final names.

        Raises:
            TooLarge: All files were too large.
            InvalidRequest: There is no file.
        """
        received = await receiver.publish()
        if not received and receiver.skipped:
            raise TooLarge("; ".join(f"{each.filename!r}: {each.reason}" for each in receiver.skipped))
        if not received:
            raise InvalidRequest("no file received; send at least one, as multipart/form-data in the field 'files'")
        folder = self._mount(owner, project_id).folder
        sizes = await asyncio.to_thread(lambda: [(folder / each.name).stat().st_size for each in received])
        stored = [PublishedFile(each.name, each.original, size) for each, size in zip(received, sizes, strict=True)]
        return ReceivedFiles(stored, receiver.skipped)

    async def open(self, owner: str, project_id: str, name: str) -> ReadableFile:
        """Open a file for reading; the caller closes it."""
        return await asyncio.to_thread(open_file, ResolvedPath(self._mount(owner, project_id), (name,)))

    async def remove(self, owner: str, project_id: str, names: Sequence[str]) -> None:
        """Remove files; missing ones are ignored."""
        await run_to_completion(self._remove, owner, project_id, names)

    async def link_thread(self, owner: str, thread_id: str, project_id: str | None) -> None:
        """Mount the files of a project in the sandbox of a thread, or of none."""
        await run_to_completion(write_project_marker, thread_folder(self.home, owner, thread_id), project_id)

    async def purge(self, owner: str, project_id: str) -> None:
        """Remove all files of a project."""
        await asyncio.to_thread(remove_folder, self._mount(owner, project_id).folder.parent)
        await asyncio.to_thread(remove_folder, thread_folder(self.home, owner, f"{INDEX_PREFIX}{project_id}"))

    def _remove(self, owner: str, project_id: str, names: Sequence[str]) -> None:
        mount = self._mount(owner, project_id)
        for name in names:
            with suppress(FileProblem):  # it is gone already
                remove_file(ResolvedPath(mount, (name,)))

    def _mount(self, owner: str, project_id: str) -> Mount:
        return Mount(PROJECT_FILES, project_folder(self.home, owner, project_id) / "files")


SCRIPT = Path(__file__).with_name("extract_passages.py").read_text(encoding="utf-8")
PACKAGES: Mapping[str, str] = MappingProxyType({".pdf": "pypdfium2", ".xlsx": "openpyxl"})
"""Packages of the sandbox that read a format; other formats need none."""
MAX_OUTPUT_CHARS = 128 * 1024 * 1024
MAX_PASSAGES = 100_000
Position = Annotated[int, Field(ge=1, le=100_000_000)]
PassageText = Annotated[str, Field(max_length=4000)]
HeadingText = Annotated[str, Field(max_length=1000)]


@dataclass(frozen=True, slots=True)
class ExtractionProblem:
    """Reason why a file has no passages."""

    reason: IndexProblem


class ProgramLine(BaseModel):
    """Line that the program prints. It is untrusted, because a document may have manipulated it."""

    model_config = ConfigDict(extra="forbid")

    index: Annotated[int, Field(ge=0, le=10_000)]
    problem: IndexProblem | None = None
    unit: PassageUnit | None = None
    pages: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    passages: Annotated[list[tuple[Position, PassageText, HeadingText]], Field(max_length=MAX_PASSAGES)] = []


Outcome = ExtractedText | ExtractionProblem


def find_packages(name: str) -> tuple[str, ...]:
    """Return the packages that reading a file needs."""
    package = PACKAGES.get(PurePosixPath(name).suffix.lower())
    return (package,) if package else ()


@dataclass(frozen=True, slots=True)
class PassageExtractor:
    """Reads files of one project in a sandbox that sees nothing but them."""

    jobs: SandboxJobs

    async def extract(
        self, files: Sequence[QueuedFile], packages: Sequence[str], settings: KnowledgeConfig
    ) -> dict[str, Outcome]:
        """Return the outcomes by file id; files that were not reached are left out.

        Raises:
            SandboxJobUnavailable: Files cannot be read, or not yet.
            SandboxError: The sandbox is not available.
        """
        job = SandboxJob(
            SCRIPT,
            tuple(packages),
            seconds=settings.seconds,
            memory_mb=settings.memory_mb,
            output_chars=MAX_OUTPUT_CHARS,
        )
        first = files[0]
        arguments = [str(settings.memory_mb), *(f"{PROJECT_FILES}/{file.name}" for file in files)]
        result = await self.jobs.run(f"{INDEX_PREFIX}{first.project_id}", first.owner, job, arguments)
        return interpret(result, files)


def interpret(result: SandboxJobResult, files: Sequence[QueuedFile]) -> dict[str, Outcome]:
    """Return the outcomes that the output of the program tells."""
    outcomes: dict[str, Outcome] = {}
    current: int | None = None
    for text in result.output.splitlines():
        try:
            line = ProgramLine.model_validate_json(text)
        except ValidationError:
            continue
        if line.index >= len(files):
            continue
        if line.problem is None and line.unit is None:
            current = line.index
            continue
        outcomes[files[line.index].file_id] = to_outcome(line)
    if current is not None and files[current].file_id not in outcomes:  # the job ended while it was read
        outcomes[files[current].file_id] = ExtractionProblem(explain_end(result))
    return outcomes


def to_outcome(line: ProgramLine) -> Outcome:
    """Return the outcome of one file."""
    if line.unit is None:
        return ExtractionProblem(line.problem or "damaged")
    found = [ExtractedPassage(*passage) for passage in line.passages]
    return ExtractedText(line.unit, line.pages, found) if found else ExtractionProblem("no_text")


def explain_end(result: SandboxJobResult) -> IndexProblem:
    """Return why a job ended while it read a file."""
    if result.timed_out:
        return "too_slow"
    if result.out_of_memory:
        return "too_large"
    return "too_long" if result.truncated else "damaged"
