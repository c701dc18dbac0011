"""Small pictures of large ones, drawn in the thread's sandbox: pictures are made by strangers, and decoders have holes.

What was drawn is kept beside the thread's files, under the hash of the large picture, and goes with the thread.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from deerflow.domain.errors import SandboxError, UnusableFile
from deerflow.sandbox.chores import Chore, ChoreResult, Chores
from deerflow.sandbox.opened import Content, open_file
from deerflow.sandbox.places import Spot

logger = logging.getLogger(__name__)

SIDES = (64, 128, 256, 512, 1024)
MAX_PICTURE = 64 * 1024 * 1024
MAX_KEPT = 500
PIECE = 1024 * 1024
SCRIPT = Path(__file__).with_name("draw_thumbnail.py").read_text(encoding="utf-8")
DRAWING = Chore(SCRIPT, packages=("PIL",), seconds=20.0, memory_mb=512, file_mb=1, output_chars=4 * 1024 * 1024)
MARK, PROBLEM = "picture:", "problem:"


class Thumbnails:
    """Small pictures of one thread's, kept in `folder`."""

    def __init__(self, folder: Path, chores: Chores, thread_id: str, user_id: str) -> None:
        self._folder = folder
        self._chores = chores
        self._thread_id = thread_id
        self._user_id = user_id

    async def of(self, spot: Spot, side: int) -> Content:
        """A picture whose longer side is about `side` pixels.

        Raises:
            FileProblem: There is no such file.
            UnusableFile: No small picture can be made of it; the text says why.
        """
        wanted = min((each for each in SIDES if each >= side), default=SIDES[-1])
        name = f"{await asyncio.to_thread(content_hash, spot)}-{wanted}"
        drawn = await asyncio.to_thread(self._find, name)
        if drawn is None:
            drawn = await self._draw(spot, wanted)
            await asyncio.to_thread(self._keep, name, drawn)
        return Content(f"{spot.names[-1]}.webp", drawn, datetime.fromtimestamp(0, UTC), name)

    async def _draw(self, spot: Spot, side: int) -> bytes:
        try:
            result = await self._chores.run(self._thread_id, self._user_id, DRAWING, [spot.path, str(side)])
        except SandboxError as problem:
            raise UnusableFile(f"no small picture of {spot.path!r} can be made: {problem}") from None
        drawn = read_drawing(result)
        if drawn is None:
            raise UnusableFile(f"no small picture of {spot.path!r} can be made: {reason_of(result)}")
        return drawn

    def _find(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return None

    def _keep(self, name: str, drawn: bytes) -> None:
        """Keep a picture, and no more than a number of them."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            unfinished = self._folder / f".{uuid4().hex}"
            unfinished.write_bytes(drawn)
            unfinished.replace(self._folder / name)
            kept = sorted(self._folder.iterdir(), key=lambda each: each.stat().st_mtime_ns)
            for old in kept[:-MAX_KEPT]:
                old.unlink(missing_ok=True)
        except OSError as problem:  # it is drawn again next time
            logger.warning("a small picture could not be kept: %s", problem)


def content_hash(spot: Spot) -> str:
    """The SHA-256 of a picture.

    Raises:
        UnusableFile: It is too large to be one that is drawn.
    """
    file = open_file(spot)
    try:
        if file.size > MAX_PICTURE:
            limit = MAX_PICTURE // 1024**2
            raise UnusableFile(f"no small picture of {spot.path!r} can be made: it has more than {limit} MB")
        digest = hashlib.sha256()
        place = 0
        while piece := file.read(place, PIECE):
            place += len(piece)
            digest.update(piece)
        return digest.hexdigest()
    finally:
        file.close()


def read_drawing(result: ChoreResult) -> bytes | None:
    """The picture that was drawn; whoever works in the sandbox may have had a hand in it, so it is looked at."""
    if result.exit_code or result.truncated or not result.output.startswith(MARK):
        return None
    try:
        drawn = base64.b64decode(result.output.removeprefix(MARK), validate=True)
    except binascii.Error:
        return None
    return drawn if drawn[:4] == b"RIFF" and drawn[8:12] == b"WEBP" else None


def reason_of(result: ChoreResult) -> str:
    """Why nothing was drawn."""
    if result.timed_out:
        return f"drawing it takes longer than {DRAWING.seconds:g} s"
    if result.out_of_memory:
        return f"drawing it takes more than {DRAWING.memory_mb} MB of memory"
    if result.output.startswith(PROBLEM):
        return result.output.removeprefix(PROBLEM)[:200]
    return "it cannot be drawn"
