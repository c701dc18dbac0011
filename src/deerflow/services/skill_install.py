"""Installation of skills from archives: files of a thread, or of this machine."""

import asyncio
import io
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deerflow.domain.errors import FileProblem, UnusableFile
from deerflow.domain.identity import Principal
from deerflow.sandbox.file_access import OpenFile, ReadableFile
from deerflow.services.artifacts import ArtifactService
from deerflow.skills.authoring.custom_skills import CustomSkillService
from deerflow.skills.authoring.history import Verdict
from deerflow.skills.authoring.store import Author, StoredSkill

EXTENSIONS = (".skill", ".zip")


@dataclass(frozen=True, slots=True)
class InstallResult:
    """Installed skill, and the verdict of its review."""

    skill: StoredSkill
    verdict: Verdict

    @property
    def message(self) -> str:
        """Return the result for the user."""
        said = f": {self.verdict.reason}" if self.verdict.decision == "warn" and self.verdict.reason else ""
        return f"Skill {self.skill.name!r} installed{said}"


async def install_from_thread(
    artifacts: ArtifactService, skills: CustomSkillService, thread_id: str, who: Principal, path: str
) -> InstallResult:
    """Install a skill from an archive among the files of a thread: an upload, or a file the agent has written.

    Raises:
        NotFound: The thread does not exist.
        FileProblem: The file does not exist.
        SkillRefused: The skill is rejected; nothing of it is stored.
        Conflict: A skill with the same name exists.
    """
    check_extension(path)
    archive = await artifacts.open(thread_id, who, f"/{path.lstrip('/')}")
    return await install(skills, archive, who, Author("person", thread_id))


async def install_from_disk(skills: CustomSkillService, who: Principal, path: Path) -> InstallResult:
    """Install a skill from an archive on this machine.

    Raises:
        FileProblem: The file does not exist.
        SkillRefused: The skill is rejected; nothing of it is stored.
        Conflict: A skill with the same name exists.
    """
    check_extension(path.name)
    return await install(skills, await asyncio.to_thread(open_local_file, path), who, Author())


async def install(skills: CustomSkillService, archive: ReadableFile, who: Principal, author: Author) -> InstallResult:
    """Install a skill from an archive, and close the archive."""
    try:
        return InstallResult(*await skills.install(who.user_id, archive, author))
    finally:
        await asyncio.to_thread(archive.close)


def check_extension(name: str) -> None:
    """Raise `UnusableFile` unless the name has the extension of a skill archive."""
    if not name.lower().endswith(EXTENSIONS):
        raise UnusableFile(f"{name!r} is not a skill archive; expected the extension .skill")


def open_local_file(path: Path) -> OpenFile:
    """Open a file of this machine."""
    try:
        file = io.FileIO(path)
    except OSError as problem:
        raise FileProblem(f"cannot read {str(path)!r}: {(problem.strerror or str(problem)).lower()}") from None
    return OpenFile(path.name, path.stat().st_size, datetime.now(UTC), "", False, file)
