"""Thumbnails, rendered in the thread's sandbox because images are untrusted and decoders have vulnerabilities.

Rendered thumbnails are cached next to the thread's files, keyed by the hash of the image, and deleted with the thread.
"""

import asyncio
import base64
import binascii
from datetime import UTC, datetime
from pathlib import Path

from deerflow.domain.errors import SandboxError, UnusableFile
from deerflow.sandbox.file_access import FileCache, InMemoryFile, hash_content, open_file
from deerflow.sandbox.files.mounts import ResolvedPath
from deerflow.sandbox.jobs.jobs import SandboxJob, SandboxJobResult, SandboxJobs

SIZES = (64, 128, 256, 512, 1024)
MAX_PICTURE = 64 * 1024 * 1024
MAX_CACHED, MAX_CACHED_BYTES = 500, 128 * 1024 * 1024
SCRIPT = Path(__file__).with_name("draw_thumbnail.py").read_text(encoding="utf-8")
THUMBNAIL_JOB = SandboxJob(
    SCRIPT, packages=("PIL",), seconds=20.0, memory_mb=512, file_mb=1, output_chars=4 * 1024 * 1024
)
IMAGE_PREFIX, PROBLEM_PREFIX = "picture:", "problem:"


class Thumbnails:
    """Thumbnails of one thread, cached in `folder`."""

    def __init__(self, folder: Path, jobs: SandboxJobs, thread_id: str, user_id: str) -> None:
        self._cache = FileCache(folder, MAX_CACHED, MAX_CACHED_BYTES)
        self._jobs = jobs
        self._thread_id = thread_id
        self._user_id = user_id

    async def get(self, resolved: ResolvedPath, side: int) -> InMemoryFile:
        """Return a thumbnail whose longer side is about `side` pixels.

        Raises:
            FileProblem: The file does not exist.
            UnusableFile: No thumbnail can be made; the text gives the reason.
        """
        size = min((each for each in SIZES if each >= side), default=SIZES[-1])
        name = f"{await asyncio.to_thread(hash_file, resolved)}-{size}"
        thumbnail = await asyncio.to_thread(self._cache.load, name)
        if thumbnail is None:
            thumbnail = await self._render(resolved, size)
            await asyncio.to_thread(self._cache.store, name, thumbnail)
        return InMemoryFile(f"{resolved.parts[-1]}.webp", thumbnail, datetime.fromtimestamp(0, UTC), name)

    async def _render(self, resolved: ResolvedPath, side: int) -> bytes:
        try:
            result = await self._jobs.run(self._thread_id, self._user_id, THUMBNAIL_JOB, [resolved.path, str(side)])
        except SandboxError as problem:
            raise UnusableFile(f"no thumbnail of {resolved.path!r}: {problem}") from None
        thumbnail = parse_thumbnail(result)
        if thumbnail is None:
            raise UnusableFile(f"no thumbnail of {resolved.path!r}: {explain_failure(result)}")
        return thumbnail


def hash_file(resolved: ResolvedPath) -> str:
    """Return the SHA-256 of an image.

    Raises:
        UnusableFile: The file is too large.
    """
    file = open_file(resolved)
    try:
        if file.size > MAX_PICTURE:
            limit = MAX_PICTURE // 1024**2
            raise UnusableFile(f"no thumbnail of {resolved.path!r}: it is larger than {limit} MB")
        return hash_content(file)
    finally:
        file.close()


def parse_thumbnail(result: SandboxJobResult) -> bytes | None:
    """Return the thumbnail in the job output, or None. It is checked: commands in the sandbox may have forged it."""
    if result.exit_code or result.truncated or not result.output.startswith(IMAGE_PREFIX):
        return None
    try:
        thumbnail = base64.b64decode(result.output.removeprefix(IMAGE_PREFIX), validate=True)
    except binascii.Error:
        return None
    return thumbnail if thumbnail[:4] == b"RIFF" and thumbnail[8:12] == b"WEBP" else None


def explain_failure(result: SandboxJobResult) -> str:
    """Return why no thumbnail was made."""
    if result.timed_out:
        return f"drawing it takes longer than {THUMBNAIL_JOB.seconds:g} s"
    if result.out_of_memory:
        return f"drawing it takes more than {THUMBNAIL_JOB.memory_mb} MB of memory"
    if result.output.startswith(PROBLEM_PREFIX):
        return result.output.removeprefix(PROBLEM_PREFIX)[:200]
    return "it cannot be drawn"
