"""Has nothing of what was deleted be left in the files of a database."""

import asyncio
import sys
from pathlib import Path

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence import scrubber
from deerflow.persistence.checkpoints import checkpoints_file
from deerflow.persistence.database import Place

LIMIT_S = 600.0


async def scrub(place: Place) -> bool:
    """Have the files at `place` forget what was deleted; False when somebody was in the way.

    Raises:
        StorageUnavailable: That cannot be done.
    """
    if not isinstance(place, Path):  # a server has its own way
        return True
    files = [str(file) for file in (place, checkpoints_file(place)) if file.exists()]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", scrubber.__file__, *files, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            _, complaint = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode not in (0, scrubber.IN_THE_WAY):
        reason = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        raise StorageUnavailable(f"deleted bytes could not be removed from the database: {reason}")
    return process.returncode == 0
