"""Finding the skills below a folder."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from deerflow.domain.errors import SkillInvalid
from deerflow.skills.contract import read_contract
from deerflow.skills.format import MAX_SKILL_BYTES, SKILL_FILE, parse_skill
from deerflow.skills.skill import Category, RefusedSkill, Skill
from deerflow.skills.switches import read_switches

MAX_FOLDERS_DEEP = 8
MAX_ENTRIES = 100_000
"""Files and folders below one root; a root that holds more is not one of skills."""
MAX_FILES, MAX_TOTAL_BYTES = 4096, 512 * 2**20
"""Of one skill."""
PASSED_OVER = frozenset({"__MACOSX", "__pycache__", "node_modules", ".git", ".DS_Store"})
"""What is part of no skill, wherever it is."""


@dataclass(slots=True, eq=False)
class Findings:
    """What was found below one root at one moment."""

    skills: list[Skill] = field(default_factory=list)
    refused: list[RefusedSkill] = field(default_factory=list)
    switches: Mapping[str, bool] = field(default_factory=dict)
    """Those of its owner, where the root is somebody's own."""


def find_skills(root: Path, category: Category, look: Callable[[Path], object] = str) -> Findings:
    """The skills below `root`, in the order of their folders; no link is followed.

    `look` is told of each folder before it is looked into, so that whoever watches them misses nothing.
    """
    findings = Findings()
    Search(root, category, findings, look).search(root, 0)
    findings.switches = read_switches(root) if category == "custom" else {}
    findings.skills.sort(key=lambda skill: str(skill.relative))
    findings.refused.sort(key=lambda refused: refused.path)
    return findings


@dataclass(slots=True)
class Search:
    """One walk through a root."""

    root: Path
    category: Category
    findings: Findings
    look: Callable[[Path], object]
    entries: int = 0

    def search(self, folder: Path, depth: int) -> None:
        """Note what is in `folder`: a skill, or folders in which skills may be."""
        self.look(folder)
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            self._refuse(folder, f"cannot be read: {reason(error)}")
            return
        self.entries += len(entries)
        if self.entries > MAX_ENTRIES:
            self._refuse(folder, f"there are more than {MAX_ENTRIES:,} files here; skills are small folders")
        elif folder != self.root and any(entry.name == SKILL_FILE for entry in entries):
            self._take(folder)
        else:
            self._look_below(folder, entries, depth)

    def _look_below(self, folder: Path, entries: list[os.DirEntry[str]], depth: int) -> None:
        for entry in entries:
            if entry.name == SKILL_FILE:
                self._refuse(folder, f"{SKILL_FILE}: a skill needs a folder of its own; move the file into one")
            elif entry.name.upper() == SKILL_FILE.upper():
                self._refuse(folder, f"{entry.name}: must be called {SKILL_FILE}; rename it")
            inner = folder / entry.name
            if entry.name.startswith(".") or entry.name in PASSED_OVER:
                continue
            if entry.is_symlink() and entry.is_dir():
                self._refuse(inner, "is a link, and links are not followed; put the folder itself here")
            elif entry.is_dir(follow_symlinks=False):
                if depth == MAX_FOLDERS_DEEP:
                    self._refuse(inner, f"is more than {MAX_FOLDERS_DEEP} folders deep")
                else:
                    self.search(inner, depth + 1)

    def _take(self, folder: Path) -> None:
        """Read the skill in `folder`; what is below belongs to it, whatever it is called."""
        try:
            relative = folder.relative_to(self.root)
            if readable(relative) != relative.as_posix():
                raise SkillInvalid("the name of the folder is no text in UTF-8; rename it")
            fingerprint = take_fingerprint(folder, self.look, max_files=MAX_FILES)
            header = parse_skill(read_skill_file(folder))
            contract = read_contract(folder)
        except SkillInvalid as error:
            self._refuse(folder, str(error))
            return
        self.findings.skills.append(
            Skill(
                name=header.name,
                description=header.description,
                category=self.category,
                folder=folder,
                relative=PurePosixPath(relative.as_posix()),
                license=header.license,
                allowed_tools=header.allowed_tools,
                contract=contract,
                fields=header.fields,
                fingerprint=fingerprint,
            )
        )

    def _refuse(self, folder: Path, why: str) -> None:
        path = readable(folder.relative_to(self.root))
        self.findings.refused.append(RefusedSkill(self.category, path, why))


def read_skill_file(folder: Path) -> str:
    """The text of the SKILL.md in `folder`.

    Raises:
        SkillInvalid: It is no file that can be read; the text says why.
    """
    try:
        # Neither a link nor a pipe that somebody put there may lead elsewhere, or hold the reader up.
        descriptor = os.open(folder / SKILL_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SkillInvalid(f"{SKILL_FILE}: is not a file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_SKILL_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        is_link = (folder / SKILL_FILE).is_symlink()
        why = "is a link, and links are not followed" if is_link else f"cannot be read: {reason(error)}"
        raise SkillInvalid(f"{SKILL_FILE}: {why}") from None
    if len(content) > MAX_SKILL_BYTES:
        advice = "move parts of it to files in references/"
        raise SkillInvalid(f"{SKILL_FILE}: is larger than {MAX_SKILL_BYTES // 1024} KB; {advice}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SkillInvalid(f"{SKILL_FILE}: is not UTF-8 text; save it in that encoding") from None


def take_fingerprint(folder: Path, look: Callable[[Path], object] = str, *, max_files: int | None = None) -> str:
    """What changes with every file below `folder`; `look` is told of each folder before it is looked into.

    Raises:
        SkillInvalid: There is more below it than a skill can have.
    """
    state, files, size = hashlib.sha256(), 0, 0
    for entry in entries_below(folder, look):
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # it was there a moment ago
        if not stat.S_ISDIR(status.st_mode):
            files, size = files + 1, size + status.st_size
            if max_files is not None and (files > max_files or size > MAX_TOTAL_BYTES):
                most = f"{max_files:,} files and {MAX_TOTAL_BYTES // 2**20} MB"
                raise SkillInvalid(f"there is more in the folder than a skill can have, which is {most}")
            now = f"{status.st_mtime_ns} {status.st_size} {status.st_ino} {status.st_mode}\n"
            state.update(os.fsencode(entry.path) + b"\0" + now.encode())
    return state.hexdigest()


def entries_below(folder: Path, look: Callable[[Path], object] = str) -> Iterator[os.DirEntry[str]]:
    """Everything below `folder`, in the same order every time; links are shown and not followed."""
    waiting = [str(folder)]
    while waiting:
        inner = waiting.pop()
        look(Path(inner))
        try:
            with os.scandir(inner) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        entries = [entry for entry in entries if entry.name not in PASSED_OVER]
        yield from entries
        waiting.extend(entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False))


def readable(path: Path) -> str:
    """A path for people; bytes that are no text are shown as such."""
    return os.fsencode(path.as_posix()).decode(errors="replace")


def reason(error: OSError) -> str:
    """Why the system refused, in small letters."""
    return (error.strerror or str(error)).lower()
