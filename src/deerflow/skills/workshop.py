"""Where custom skills are made and changed: every change is looked at, tried where that is asked for, and noted."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.sandbox.opened import Readable
from deerflow.skills.archives import unpack_skill
from deerflow.skills.checks import (
    check_hash,
    check_header,
    check_path,
    check_support_path,
    encode,
    encoded_or_none,
    read_by_models,
)
from deerflow.skills.files import read_files
from deerflow.skills.format import SKILL_FILE, parse_skill
from deerflow.skills.history import HistoryEntry, Verdict, discard
from deerflow.skills.review import SkillReviewer, Subject
from deerflow.skills.scanner.package import SkillFile
from deerflow.skills.scanner.scanner import ScanReport, SkillScanner
from deerflow.skills.store import (
    Author,
    FileChange,
    SkillStore,
    StoredSkill,
    new_entry,
    read_bytes,
    text_of,
    write,
)


class SkillTrial(Protocol):
    """Tries a skill out, as its tests say, before a change that an agent made is accepted."""

    async def try_out(self, owner: str, name: str, folder: Path) -> None:
        """Try the skill in `folder`, which is not the one in use.

        Raises:
            SkillRefused: One of its tests fails; the text says which.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """How carefully changes are looked at."""

    scans: bool = True
    """Whether the fixed rules are asked."""
    fails_closed: bool = True
    """Whether there must be a review, also of what has no scripts."""


@dataclass(frozen=True, slots=True)
class FileText:
    """What a file of a skill says."""

    content: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SkillWorkshop:
    """Makes and changes the custom skills of everybody, each step as a whole or not at all.

    What a person writes is judged by the fixed rules, what comes in an archive or from an agent by a model as well, and
    what an agent changes has to pass the skill's own tests.
    """

    store: SkillStore
    scanner: SkillScanner
    reviewer: SkillReviewer
    rules: Callable[[], Rules] = Rules
    trial: SkillTrial | None = None

    async def list(self, owner: str) -> Sequence[StoredSkill]:
        """All custom skills."""
        names = await asyncio.to_thread(self.store.names, owner)
        return [await self.get(owner, name) for name in names]

    async def get(self, owner: str, name: str) -> StoredSkill:
        """One custom skill."""
        return await asyncio.to_thread(self.store.describe, owner, name)

    async def read_file(self, owner: str, name: str, path: str) -> FileText:
        """A text among the files of a skill.

        Raises:
            NotFound: There is none.
        """
        content = await self._read(owner, name, check_path(path))
        text = text_of(content)
        if content is None or text is None:
            raise NotFound(f"the skill {name!r} has no text {path!r}")
        return FileText(text, hashlib.sha256(content).hexdigest())

    async def create(self, owner: str, content: str, author: Author, name: str | None = None) -> StoredSkill:
        """Make a skill of a SKILL.md.

        Raises:
            SkillInvalid: Its header cannot be used.
            Conflict: There is a skill of that name.
            SkillRefused: It is not accepted.
        """
        header = parse_skill(content)
        if name is not None and header.name != name:
            raise InvalidRequest(f"the header calls the skill {header.name!r}, not {name!r}; they must be the same")
        await asyncio.to_thread(self.store.check_free, owner, header.name)
        encoded = encode(content)
        report = await self._scan([SkillFile(SKILL_FILE, len(encoded), encoded)])
        verdict = await self._judge(owner, header.name, [SkillFile(SKILL_FILE, len(encoded), encoded)], report, author)
        entry = new_entry("create", author, verdict, file=SKILL_FILE)
        entry.after = content
        async with self._staging(owner) as folder:
            await asyncio.to_thread(self._stage, None, folder, {SKILL_FILE: encoded})
            await self._try_out(owner, header.name, folder, author)
            await asyncio.to_thread(self.store.add, owner, header.name, folder, entry)
        return await self.get(owner, header.name)

    async def install(self, owner: str, archive: Readable, author: Author) -> tuple[StoredSkill, Verdict]:
        """Make a skill of an archive; when it is refused nothing of it stays.

        Raises:
            SkillInvalid: Its header cannot be used.
            Conflict: There is a skill of that name.
            SkillRefused: It is not accepted.
        """
        async with self._staging(owner) as folder:
            unpacked = await asyncio.to_thread(unpack_skill, archive, folder)
            name = unpacked.header.name
            await asyncio.to_thread(self.store.check_free, owner, name)
            files = await asyncio.to_thread(read_files, folder)
            report = await self._scan(files)
            subject = Subject(name, read_by_models(files), report.findings, report.is_executable)
            verdict = await self._review(subject, owner, author)
            entry = new_entry("install", author, verdict)
            entry.after = text_of(await asyncio.to_thread(read_bytes, folder, SKILL_FILE))
            await asyncio.to_thread(self.store.add, owner, name, folder, entry)
        return await self.get(owner, name), verdict

    async def edit(
        self, owner: str, name: str, content: str, author: Author, expected_sha256: str | None = None
    ) -> StoredSkill:
        """Replace the SKILL.md of a skill.

        Raises:
            NotFound: There is no such skill.
            Conflict: It is another one by now than the one with the expected hash.
            SkillInvalid: The header cannot be used.
            SkillRefused: The change is not accepted.
        """
        before = await self._read(owner, name, SKILL_FILE)
        check_hash(name, before, expected_sha256)
        return await self._change(owner, name, FileChange("edit", SKILL_FILE, before, encode(content)), author)

    async def patch(
        self, owner: str, name: str, find: str, replace: str, author: Author, *, path: str | None, expected_count: int
    ) -> StoredSkill:
        """Replace a piece of a file that is in it as often as expected.

        Raises:
            InvalidRequest: It is there more or less often; the text says how often.
        """
        path = SKILL_FILE if path in (None, SKILL_FILE) else check_support_path(str(path), author.kind)
        before = await self._read(owner, name, path)
        text = text_of(before)
        if text is None:
            raise NotFound(f"the skill {name!r} has no text {path!r}")
        count = text.count(find) if find else 0
        if count != expected_count or not find:
            raise InvalidRequest(f"{path!r} has the piece {count} times, not {expected_count}; nothing was changed")
        return await self._change(
            owner, name, FileChange("patch", path, before, encode(text.replace(find, replace))), author
        )

    async def write_file(
        self, owner: str, name: str, path: str, content: str, author: Author, expected_sha256: str | None = None
    ) -> StoredSkill:
        """Write a file beside SKILL.md, in one of its folders; a person also the contract and the tests."""
        before = await self._read(owner, name, check_support_path(path, author.kind))
        check_hash(name, before, expected_sha256)
        return await self._change(owner, name, FileChange("write_file", path, before, encode(content)), author)

    async def remove_file(self, owner: str, name: str, path: str, author: Author) -> StoredSkill:
        """Remove a file beside SKILL.md."""
        before = await self._read(owner, name, check_support_path(path, author.kind))
        if before is None:
            raise NotFound(f"the skill {name!r} has no file {path!r}")
        return await self._change(owner, name, FileChange("remove_file", path, before, None), author)

    async def delete(self, owner: str, name: str, author: Author) -> HistoryEntry:
        """Take a skill away; it can be brought back until its history is cleared."""
        return await asyncio.to_thread(self.store.delete, owner, name, author)

    async def history(self, owner: str, name: str) -> Sequence[HistoryEntry]:
        """What became of a skill, oldest first, also when it is gone.

        Raises:
            NotFound: There is no such skill, and never was.
        """
        entries = await asyncio.to_thread(self.store.history(owner, name).entries)
        if not entries:
            await asyncio.to_thread(self.store.folder, owner, name)
        return entries

    async def clear_history(self, owner: str, name: str) -> None:
        """Forget what became of a skill; what was deleted is gone for good."""
        await self.history(owner, name)
        await asyncio.to_thread(self.store.clear_history, owner, name)

    async def rollback(self, owner: str, name: str, author: Author, index: int = -1) -> StoredSkill:
        """Undo a change: that file, or the whole skill after it was deleted, is as it was before.

        Raises:
            NotFound: There is no such change.
            Conflict: It cannot be undone; the text says why.
        """
        entries = await self.history(owner, name)
        try:
            entry = entries[index]
        except IndexError:
            raise NotFound(f"the history of {name!r} has {len(entries)} changes, and none is number {index}") from None
        if entry.action == "delete":
            return await self._bring_back(owner, name, entry, author)
        if entry.action in ("create", "install") or entry.file is None:
            raise Conflict(f"before that change there was no skill {name!r}; delete it instead")
        before = await self._read(owner, name, entry.file)
        kept = self.store.history(owner, name).kept(entry.id)
        restored = await asyncio.to_thread(kept.read_bytes) if entry.kept else encoded_or_none(entry.before)
        if before == restored:
            raise Conflict(f"{entry.file!r} already is as it was before that change")
        return await self._change(owner, name, FileChange("rollback", entry.file, before, restored), author)

    async def _bring_back(self, owner: str, name: str, entry: HistoryEntry, author: Author) -> StoredSkill:
        kept = self.store.history(owner, name).kept(entry.id)
        await asyncio.to_thread(self.store.check_free, owner, name)
        report = await self._scan(await asyncio.to_thread(read_files, kept))
        undone = new_entry("rollback", author, Verdict(findings=list(report.findings)))
        undone.after = entry.before
        async with self._staging(owner) as folder:
            await asyncio.to_thread(self._stage, kept, folder, {})
            await asyncio.to_thread(self.store.add, owner, name, folder, undone)
        return await self.get(owner, name)

    async def _change(self, owner: str, name: str, change: FileChange, author: Author) -> StoredSkill:
        """The one way in which a file of a skill becomes another."""
        if change.path == SKILL_FILE:
            check_header(name, change.after)
        if change.before == change.after:
            raise Conflict(f"{change.path!r} already says that; nothing was changed")
        folder = await asyncio.to_thread(self.store.folder, owner, name)
        files = await asyncio.to_thread(read_files, folder, {change.path: change.after})
        report = await self._scan(files)
        changed = [file for file in files if file.path in (change.path, SKILL_FILE)]
        verdict = await self._judge(owner, name, changed if change.after is not None else [], report, author)
        if author.kind == "agent" and self.trial is not None:
            async with self._staging(owner) as staged:
                await asyncio.to_thread(self._stage, folder, staged, {change.path: change.after})
                await self._try_out(owner, name, staged, author)
        await asyncio.to_thread(self.store.change, owner, name, change, author, verdict)
        return await self.get(owner, name)

    async def _scan(self, files: Sequence[SkillFile]) -> ScanReport:
        """What the fixed rules say; what they block goes no further."""
        if not self.rules().scans:
            return ScanReport(is_executable=any(file.is_script for file in files))
        report = await self.scanner.scan(files)
        report.check()
        return report

    async def _judge(
        self, owner: str, name: str, files: Sequence[SkillFile], report: ScanReport, author: Author
    ) -> Verdict:
        """What is noted of a change; a model is asked about what an agent wrote."""
        paths = {file.path for file in files}
        findings = [finding for finding in report.findings if finding.file in paths]
        if author.kind == "person" or not files:
            worst = any(finding.severity == "HIGH" for finding in findings)
            return Verdict(decision="warn" if worst else "allow", findings=findings)
        is_executable = any(file.is_script for file in files)
        return await self._review(Subject(name, files, findings, is_executable), owner, author)

    async def _review(self, subject: Subject, owner: str, author: Author) -> Verdict:
        closed = self.rules().fails_closed
        return await self.reviewer.review(subject, owner, author, fail_closed=closed)

    async def _try_out(self, owner: str, name: str, folder: Path, author: Author) -> None:
        if author.kind == "agent" and self.trial is not None:
            await self.trial.try_out(owner, name, folder)

    async def _read(self, owner: str, name: str, path: str) -> bytes | None:
        folder = await asyncio.to_thread(self.store.folder, owner, name)
        return await asyncio.to_thread(read_bytes, folder, path)

    @asynccontextmanager
    async def _staging(self, owner: str) -> AsyncIterator[Path]:
        """A place for a skill that is being made; whatever is left there goes."""
        folder = await asyncio.to_thread(self.store.staging, owner)
        try:
            yield folder
        finally:
            await asyncio.to_thread(discard, folder)

    @staticmethod
    def _stage(source: Path | None, folder: Path, changes: Mapping[str, bytes | None]) -> None:
        """Prepare a folder: a copy of another, with changes."""
        if source is None:
            folder.mkdir(mode=0o755)
        else:
            shutil.copytree(source, folder, symlinks=True)
        for path, content in changes.items():
            write(folder, path, content)
