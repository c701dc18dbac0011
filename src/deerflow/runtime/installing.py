"""Skills from files: of a thread, or of this machine."""

import asyncio
import io
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deerflow.domain.errors import FileProblem, UnusableFile
from deerflow.domain.principal import Principal
from deerflow.runtime.artifacts import Artifacts
from deerflow.sandbox.opened import OpenedFile, Readable
from deerflow.skills.history import Verdict
from deerflow.skills.store import Author, StoredSkill
from deerflow.skills.workshop import SkillWorkshop

ENDINGS = (".skill", ".zip")


@dataclass(frozen=True, slots=True)
class Installed:
    """A skill that was taken in, and what was said of it."""

    skill: StoredSkill
    verdict: Verdict

    @property
    def message(self) -> str:
        """What came of it, for a person."""
        said = f": {self.verdict.reason}" if self.verdict.decision == "warn" and self.verdict.reason else ""
        return f"Skill {self.skill.name!r} installed{said}"


async def install_from_thread(
    artifacts: Artifacts, workshop: SkillWorkshop, thread_id: str, who: Principal, path: str
) -> Installed:
    """Make a skill of an archive among the files of a thread, an upload as well as what an agent made.

    Raises:
        NotFound: There is no such thread.
        FileProblem: There is no such file.
        SkillRefused: It is not accepted; nothing of it is kept.
        Conflict: There is a skill of that name.
    """
    check_ending(path)
    archive = await artifacts.open(thread_id, who, f"/{path.lstrip('/')}")
    return await install(workshop, archive, who, Author("person", thread_id))


async def install_from_disk(workshop: SkillWorkshop, who: Principal, path: Path) -> Installed:
    """Make a skill of an archive on this machine, for programs that run on it.

    Raises:
        FileProblem: There is no such file.
        SkillRefused: It is not accepted; nothing of it is kept.
        Conflict: There is a skill of that name.
    """
    check_ending(path.name)
    return await install(workshop, await asyncio.to_thread(open_local, path), who, Author())


async def install(workshop: SkillWorkshop, archive: Readable, who: Principal, author: Author) -> Installed:
    """Make a skill of an archive, which is closed in the end."""
    try:
        return Installed(*await workshop.install(who.user_id, archive, author))
    finally:
        await asyncio.to_thread(archive.close)


def check_ending(name: str) -> None:
    """Refuse what is not meant to be an archive of a skill."""
    if not name.lower().endswith(ENDINGS):
        raise UnusableFile(f"{name!r} is not an archive of a skill: those end in .skill")


def open_local(path: Path) -> OpenedFile:
    """A file of this machine."""
    try:
        file = io.FileIO(path)
    except OSError as problem:
        raise FileProblem(f"{str(path)!r} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    return OpenedFile(path.name, path.stat().st_size, datetime.now(UTC), "", False, file)
