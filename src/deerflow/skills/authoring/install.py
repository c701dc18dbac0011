"""Installation and update of skills: from files of a thread, of this machine, or from a URL."""

import asyncio
import io
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from deerflow.domain.errors import Conflict, FileProblem, UnusableFile
from deerflow.domain.identity import Principal
from deerflow.sandbox.file_access import InMemoryFile, OpenFile, ReadableFile
from deerflow.skills.authoring.custom_skills import CustomSkillService
from deerflow.skills.authoring.download import EXTENSIONS, DownloadedSkill, SkillAddress, SkillDownloader
from deerflow.skills.authoring.history import Verdict
from deerflow.skills.authoring.lock import SkillSource
from deerflow.skills.authoring.store import Author, StoredSkill


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


@dataclass(frozen=True, slots=True)
class SkillUpdate:
    """Comparison of an installed skill with its source."""

    source: SkillSource
    """Source as it is now, with the revision that an update installs."""
    installed_revision: str
    diff: str
    """Changes of the files; empty if there are none."""


class ThreadFileOpener(Protocol):
    """Files of threads; every method is restricted to the threads of `who`."""

    async def open(self, thread_id: str, who: Principal, path: str) -> ReadableFile:
        """Open a file, or raise `NotFound` or `FileProblem`."""
        ...


async def install_from_thread(
    files: ThreadFileOpener, skills: CustomSkillService, thread_id: str, who: Principal, path: str
) -> InstallResult:
    """Install a skill from an archive among the files of a thread: an upload, or a file the agent has written.

    Raises:
        NotFound: The thread does not exist.
        FileProblem: The file does not exist.
        SkillRefused: The skill is rejected; nothing of it is stored.
        Conflict: A skill with the same name exists.
    """
    check_extension(path)
    archive = await files.open(thread_id, who, f"/{path.lstrip('/')}")
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


async def install_from_url(
    skills: CustomSkillService, downloader: SkillDownloader, who: Principal, address: SkillAddress
) -> InstallResult:
    """Install a skill from a Git repository or an archive on the web, pinned to what was downloaded.

    Raises:
        InvalidRequest: The address is malformed or ambiguous.
        SkillUnavailable: The skill cannot be downloaded.
        SkillRefused: The skill is rejected; nothing of it is stored.
        Conflict: A skill with the same name exists.
    """
    found = await downloader.download(address)
    return InstallResult(*await skills.install(who.user_id, as_archive(found), Author(), found.source))


async def check_for_update(
    skills: CustomSkillService, downloader: SkillDownloader, who: Principal, name: str
) -> SkillUpdate:
    """Download a skill again from its source and compare it with the installed files.

    Raises:
        NotFound: The skill does not exist.
        Conflict: It was not installed from a URL, or its source contains another skill now.
        SkillUnavailable: The skill cannot be downloaded.
    """
    source = await get_source(skills, who, name)
    found = await downloader.download(SkillAddress.of(source))
    diff = await skills.compare(who.user_id, name, as_archive(found))
    return SkillUpdate(found.source, source.revision, diff)


async def update_from_source(
    skills: CustomSkillService, downloader: SkillDownloader, who: Principal, name: str, revision: str
) -> InstallResult:
    """Replace a skill by a revision that `check_for_update` has returned.

    Raises:
        NotFound: The skill does not exist.
        Conflict: It was not installed from a URL, or its source has another revision now.
        SkillUnavailable: The skill cannot be downloaded.
        SkillRefused: The new version is rejected; nothing is changed.
    """
    source = await get_source(skills, who, name)
    found = await downloader.download(SkillAddress.of(source))
    if found.source.revision != revision:
        raise Conflict(f"the source of {name!r} is at {found.source.revision} now, not at {revision}; check it again")
    updated = await skills.update(who.user_id, name, as_archive(found), Author(), replace(source, revision=revision))
    return InstallResult(*updated)


async def get_source(skills: CustomSkillService, who: Principal, name: str) -> SkillSource:
    """Return the source of an installed skill.

    Raises:
        NotFound: The skill does not exist.
        Conflict: It was not installed from a URL.
    """
    source = (await skills.get(who.user_id, name)).source
    if source is None:
        raise Conflict(f"skill {name!r} was not installed from a URL, so it has no updates")
    return source


def as_archive(found: DownloadedSkill) -> InMemoryFile:
    """Return a downloaded skill as a file."""
    return InMemoryFile("downloaded.skill", found.archive, datetime.now(UTC), found.source.revision)


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
