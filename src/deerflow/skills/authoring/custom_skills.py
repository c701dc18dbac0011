"""Service for custom skills: every change is scanned, reviewed, tested if made by an agent, and recorded."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deerflow.config.sections.base import Settings
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.sandbox.file_access import ReadableFile
from deerflow.skills.authoring.archives import unpack_skill
from deerflow.skills.authoring.history import ChangeAction, HistoryEntry, Verdict, remove_path
from deerflow.skills.authoring.lock import SkillSource
from deerflow.skills.authoring.review import (
    ReviewSubject,
    SkillReviewer,
    check_hash,
    check_header,
    check_path,
    check_support_path,
    encode,
    encode_optional,
    read_files,
    select_reviewed_files,
)
from deerflow.skills.authoring.store import (
    Author,
    SkillFileChange,
    SkillStore,
    StoredSkill,
    create_entry,
    decode_text,
    diff_folders,
    read_bytes,
    write_content,
)
from deerflow.skills.format import SKILL_FILE, parse_skill
from deerflow.skills.scanner.rules import ScannedFile
from deerflow.skills.scanner.scanner import ScanReport, SkillScanner


class SkillTester(Protocol):
    """Runner of a skill's tests, used before a change by an agent is accepted."""

    async def run_tests(self, owner: str, name: str, folder: Path) -> None:
        """Test the skill in `folder`, which is a staged copy.

        Raises:
            SkillRefused: A test failed.
        """
        ...


EndShares = Callable[[str, str], Awaitable[None]]
"""Stops sharing a skill with other people, by its owner and name."""


async def keep_private(owner: str, name: str) -> None:
    """Do nothing: there are no other people."""


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """Settings for checks of changes."""

    scans: bool = True
    """Run the scanner."""
    fails_closed: bool = True
    """Require a review even for skills without scripts."""


@dataclass(frozen=True, slots=True)
class FileText:
    """Content of a text file."""

    content: str
    sha256: str


@dataclass(frozen=True, slots=True)
class CustomSkillService:
    """Creates and changes the custom skills of all users. Each change is atomic.

    Changes by people are checked by the scanner. Archives and changes by agents are also reviewed by a model, and
    changes by agents must pass the tests of the skill.
    """

    store: SkillStore
    scanner: SkillScanner
    reviewer: SkillReviewer
    policy: Settings[ReviewPolicy] = Settings(ReviewPolicy)
    tester: SkillTester | None = None
    end_shares: EndShares = keep_private

    async def list(self, owner: str) -> Sequence[StoredSkill]:
        """Return all custom skills."""
        names = await asyncio.to_thread(self.store.list_names, owner)
        return [await self.get(owner, name) for name in names]

    async def get(self, owner: str, name: str) -> StoredSkill:
        """Return one custom skill."""
        return await asyncio.to_thread(self.store.describe, owner, name)

    async def read_file(self, owner: str, name: str, path: str) -> FileText:
        """Return the content of a text file of a skill.

        Raises:
            NotFound: There is no such text file.
        """
        content = await self._read(owner, name, check_path(path))
        text = decode_text(content)
        if content is None or text is None:
            raise NotFound(f"the skill {name!r} has no text file {path!r}")
        return FileText(text, hashlib.sha256(content).hexdigest())

    async def create(self, owner: str, content: str, author: Author, name: str | None = None) -> StoredSkill:
        """Create a skill from a SKILL.md.

        Raises:
            SkillInvalid: The header is invalid.
            Conflict: The name is taken.
            SkillRefused: The skill was not accepted.
        """
        header = parse_skill(content)
        if name is not None and header.name != name:
            raise InvalidRequest(f"the header has the name {header.name!r}, not {name!r}; they must match")
        await asyncio.to_thread(self.store.check_name_available, owner, header.name)
        encoded = encode(content)
        report = await self._scan([ScannedFile(SKILL_FILE, len(encoded), encoded)])
        verdict = await self._assess(
            owner, header.name, [ScannedFile(SKILL_FILE, len(encoded), encoded)], report, author
        )
        entry = create_entry("create", author, verdict, file=SKILL_FILE)
        entry.after = content
        async with self._staging(owner) as folder:
            await asyncio.to_thread(self._stage, None, folder, {SKILL_FILE: encoded})
            await self._run_tests(owner, header.name, folder, author)
            await asyncio.to_thread(self.store.add, owner, header.name, folder, entry)
        return await self.get(owner, header.name)

    async def install(
        self, owner: str, archive: ReadableFile, author: Author, source: SkillSource | None = None
    ) -> tuple[StoredSkill, Verdict]:
        """Install a skill from an archive. Nothing is kept if it is refused.

        Raises:
            SkillInvalid: The header is invalid.
            Conflict: The name is taken.
            SkillRefused: The skill was not accepted.
        """
        async with self._staging(owner) as folder:
            unpacked = await asyncio.to_thread(unpack_skill, archive, folder)
            name = unpacked.header.name
            await asyncio.to_thread(self.store.check_name_available, owner, name)
            entry = await self._check_package(owner, name, folder, "install", author)
            await asyncio.to_thread(self.store.add, owner, name, folder, entry, source)
        return await self.get(owner, name), entry.scanner

    async def compare(self, owner: str, name: str, archive: ReadableFile) -> str:
        """Return the diff from an installed skill to the one in an archive.

        Raises:
            NotFound: There is no such skill.
            Conflict: The archive contains another skill.
        """
        async with self._staging(owner) as folder:
            installed = await self._unpack_update(owner, name, archive, folder)
            return await asyncio.to_thread(diff_folders, installed, folder)

    async def update(
        self, owner: str, name: str, archive: ReadableFile, author: Author, source: SkillSource
    ) -> tuple[StoredSkill, Verdict]:
        """Replace a skill by the one in an archive. A rollback restores it. Nothing is changed if it is refused.

        Raises:
            NotFound: There is no such skill.
            Conflict: The archive contains another skill.
            SkillRefused: The skill was not accepted.
        """
        async with self._staging(owner) as folder:
            await self._unpack_update(owner, name, archive, folder)
            entry = await self._check_package(owner, name, folder, "update", author)
            await asyncio.to_thread(self.store.replace, owner, name, folder, entry, source)
        return await self.get(owner, name), entry.scanner

    async def _unpack_update(self, owner: str, name: str, archive: ReadableFile, folder: Path) -> Path:
        """Unpack an archive and return the folder of the installed skill with the same name."""
        installed = await asyncio.to_thread(self.store.folder, owner, name)
        unpacked = await asyncio.to_thread(unpack_skill, archive, folder)
        if unpacked.header.name != name:
            raise Conflict(f"the archive contains the skill {unpacked.header.name!r}, not {name!r}")
        return installed

    async def _check_package(
        self, owner: str, name: str, folder: Path, action: ChangeAction, author: Author
    ) -> HistoryEntry:
        """Scan and review a whole skill in a staging folder, and return the entry for its history."""
        files = await asyncio.to_thread(read_files, folder)
        report = await self._scan(files)
        subject = ReviewSubject(name, select_reviewed_files(files), report.findings, report.is_executable)
        entry = create_entry(action, author, await self._review(subject, owner, author))
        entry.after = decode_text(await asyncio.to_thread(read_bytes, folder, SKILL_FILE))
        return entry

    async def edit(
        self, owner: str, name: str, content: str, author: Author, expected_sha256: str | None = None
    ) -> StoredSkill:
        """Replace the SKILL.md of a skill.

        Raises:
            NotFound: There is no such skill.
            Conflict: The current content does not match the expected hash.
            SkillInvalid: The header is invalid.
            SkillRefused: The change was not accepted.
        """
        before = await self._read(owner, name, SKILL_FILE)
        check_hash(name, before, expected_sha256)
        return await self._change(owner, name, SkillFileChange("edit", SKILL_FILE, before, encode(content)), author)

    async def patch(
        self, owner: str, name: str, find: str, replace: str, author: Author, *, path: str | None, expected_count: int
    ) -> StoredSkill:
        """Replace a text in a file, if it occurs exactly `expected_count` times.

        Raises:
            InvalidRequest: It occurs more or less often.
        """
        path = SKILL_FILE if path in (None, SKILL_FILE) else check_support_path(str(path), author.kind)
        before = await self._read(owner, name, path)
        text = decode_text(before)
        if text is None:
            raise NotFound(f"the skill {name!r} has no text {path!r}")
        count = text.count(find) if find else 0
        if count != expected_count or not find:
            raise InvalidRequest(
                f"search text occurs {count} times in {path!r}, expected {expected_count}; nothing was changed"
            )
        return await self._change(
            owner, name, SkillFileChange("patch", path, before, encode(text.replace(find, replace))), author
        )

    async def write_file(
        self, owner: str, name: str, path: str, content: str, author: Author, expected_sha256: str | None = None
    ) -> StoredSkill:
        """Write a support file. People may also write the contract and the tests."""
        before = await self._read(owner, name, check_support_path(path, author.kind))
        check_hash(name, before, expected_sha256)
        return await self._change(owner, name, SkillFileChange("write_file", path, before, encode(content)), author)

    async def remove_file(self, owner: str, name: str, path: str, author: Author) -> StoredSkill:
        """Remove a support file."""
        before = await self._read(owner, name, check_support_path(path, author.kind))
        if before is None:
            raise NotFound(f"the skill {name!r} has no file {path!r}")
        return await self._change(owner, name, SkillFileChange("remove_file", path, before, None), author)

    async def delete(self, owner: str, name: str, author: Author) -> HistoryEntry:
        """Delete a skill. It can be restored until its history is cleared."""
        deleted = await asyncio.to_thread(self.store.delete, owner, name, author)
        await self.end_shares(owner, name)
        return deleted

    async def history(self, owner: str, name: str) -> Sequence[HistoryEntry]:
        """Return the changes of a skill, oldest first, even if it was deleted.

        Raises:
            NotFound: The skill never existed.
        """
        entries = await asyncio.to_thread(self.store.history(owner, name).entries)
        if not entries:
            await asyncio.to_thread(self.store.folder, owner, name)
        return entries

    async def clear_history(self, owner: str, name: str) -> None:
        """Delete the history of a skill, including the backup of a deleted skill."""
        await self.history(owner, name)
        await asyncio.to_thread(self.store.clear_history, owner, name)

    async def rollback(self, owner: str, name: str, author: Author, index: int = -1) -> StoredSkill:
        """Undo a change: restore one file, or a skill that was updated or deleted.

        Raises:
            NotFound: There is no such change.
            Conflict: The change cannot be undone.
        """
        entries = await self.history(owner, name)
        try:
            entry = entries[index]
        except IndexError:
            raise NotFound(f"no change {index} in the history of {name!r}, which has {len(entries)} changes") from None
        if entry.kept and entry.file is None:
            return await self._restore(owner, name, entry, author)
        if entry.action in ("create", "install") or entry.file is None:
            raise Conflict(f"cannot undo the creation of {name!r}; delete the skill instead")
        before = await self._read(owner, name, entry.file)
        backup = self.store.history(owner, name).backup_path(entry.id)
        restored = await asyncio.to_thread(backup.read_bytes) if entry.kept else encode_optional(entry.before)
        if before == restored:
            raise Conflict(f"{entry.file!r} already has the content from before that change")
        return await self._change(owner, name, SkillFileChange("rollback", entry.file, before, restored), author)

    async def _restore(self, owner: str, name: str, entry: HistoryEntry, author: Author) -> StoredSkill:
        backup = self.store.history(owner, name).backup_path(entry.id)
        save = self.store.add if entry.action == "delete" else self.store.replace
        if entry.action == "delete":
            await asyncio.to_thread(self.store.check_name_available, owner, name)
        report = await self._scan(await asyncio.to_thread(read_files, backup))
        undone = create_entry("rollback", author, Verdict(findings=list(report.findings)))
        undone.after = entry.before
        async with self._staging(owner) as folder:
            await asyncio.to_thread(self._stage, backup, folder, {})
            await asyncio.to_thread(save, owner, name, folder, undone, entry.source)
        return await self.get(owner, name)

    async def _change(self, owner: str, name: str, change: SkillFileChange, author: Author) -> StoredSkill:
        """Check and apply a change of one file. All file changes go through this method."""
        if change.path == SKILL_FILE:
            check_header(name, change.after)
        if change.before == change.after:
            raise Conflict(f"{change.path!r} already has this content; nothing was changed")
        folder = await asyncio.to_thread(self.store.folder, owner, name)
        files = await asyncio.to_thread(read_files, folder, {change.path: change.after})
        report = await self._scan(files)
        changed = [file for file in files if file.path in (change.path, SKILL_FILE)]
        verdict = await self._assess(owner, name, changed if change.after is not None else [], report, author)
        if author.kind == "agent" and self.tester is not None:
            async with self._staging(owner) as staged:
                await asyncio.to_thread(self._stage, folder, staged, {change.path: change.after})
                await self._run_tests(owner, name, staged, author)
        await asyncio.to_thread(self.store.apply_change, owner, name, change, author, verdict)
        return await self.get(owner, name)

    async def _scan(self, files: Sequence[ScannedFile]) -> ScanReport:
        """Scan the files and refuse blocking findings."""
        if not self.policy.current.scans:
            return ScanReport(is_executable=any(file.is_script for file in files))
        report = await self.scanner.scan(files)
        report.check()
        return report

    async def _assess(
        self, owner: str, name: str, files: Sequence[ScannedFile], report: ScanReport, author: Author
    ) -> Verdict:
        """Return the verdict on a change. Changes by agents are reviewed by a model."""
        paths = {file.path for file in files}
        findings = [finding for finding in report.findings if finding.file in paths]
        if author.kind == "person" or not files:
            worst = any(finding.severity == "HIGH" for finding in findings)
            return Verdict(decision="warn" if worst else "allow", findings=findings)
        is_executable = any(file.is_script for file in files)
        return await self._review(ReviewSubject(name, files, findings, is_executable), owner, author)

    async def _review(self, subject: ReviewSubject, owner: str, author: Author) -> Verdict:
        closed = self.policy.current.fails_closed
        return await self.reviewer.review(subject, owner, author, fail_closed=closed)

    async def _run_tests(self, owner: str, name: str, folder: Path, author: Author) -> None:
        if author.kind == "agent" and self.tester is not None:
            await self.tester.run_tests(owner, name, folder)

    async def _read(self, owner: str, name: str, path: str) -> bytes | None:
        folder = await asyncio.to_thread(self.store.folder, owner, name)
        return await asyncio.to_thread(read_bytes, folder, path)

    @asynccontextmanager
    async def _staging(self, owner: str) -> AsyncIterator[Path]:
        """Provide a staging folder, which is removed afterwards."""
        folder = await asyncio.to_thread(self.store.create_staging_path, owner)
        try:
            yield folder
        finally:
            await asyncio.to_thread(remove_path, folder)

    @staticmethod
    def _stage(source: Path | None, folder: Path, changes: Mapping[str, bytes | None]) -> None:
        """Create a staging folder: a copy of `source` with changes applied."""
        if source is None:
            folder.mkdir(mode=0o755)
        else:
            shutil.copytree(source, folder, symlinks=True)
        for path, content in changes.items():
            write_content(folder, path, content)
