"""The skills a person has made or installed: read, and changed one step at a time. Every method blocks."""

import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from deerflow.config.files import replace_file
from deerflow.domain.budget import Budget
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.skills.format import SKILL_FILE, SKILL_NAME
from deerflow.skills.hashes import READ, hash_file, walk
from deerflow.skills.history import Action, AuthorKind, History, HistoryEntry, Verdict, discard
from deerflow.skills.lock import MUTEX, changed_outside, lock_file, lock_skill, read_lock
from deerflow.skills.roots import custom_root, owner_folder
from deerflow.skills.scanner.package import MAX_TEXT
from deerflow.skills.skill import Skill

RESERVED = ("custom", "install", "reload")
"""What stands in the place of a name in paths of the API."""
STALE_S = 3600.0
"""What was being made so long ago was left by a process that died."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes a skill, and in which thread."""

    kind: AuthorKind = "person"
    thread_id: str | None = None
    budget: Budget | None = None
    """What pays for the review of it, where a run makes the change."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a skill that is to be different; `before` is what it is expected to be, `after` what it will be."""

    action: Action
    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a skill."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class StoredSkill:
    """A custom skill with all that can be said of it."""

    name: str
    content: str
    """Its SKILL.md."""
    sha256: str
    files: tuple[StoredFile, ...]
    changed_outside: tuple[str, ...]


class SkillStore:
    """Custom skills below `home`; `skills_of` knows where those are that people have sorted into folders."""

    def __init__(self, home: Path, skills_of: Callable[[str], Sequence[Skill]]) -> None:
        self._home = home
        self._skills_of = skills_of

    def folder(self, owner: str, name: str) -> Path:
        """Where a custom skill is.

        Raises:
            NotFound: There is none of that name.
            Conflict: It is one that came with the program.
        """
        own = custom_root(self._home, owner) / check_name(name)
        if own.is_dir() and not own.is_symlink():
            return own
        known = next((skill for skill in self._skills_of(owner) if skill.name == name), None)
        if known is None:
            raise NotFound(f"there is no custom skill {name!r}")
        if known.category != "custom":
            raise Conflict(f"the skill {name!r} is built in and cannot be changed; make one with another name")
        return known.folder

    def check_free(self, owner: str, name: str) -> None:
        """Refuse a name that is taken.

        Raises:
            Conflict: There is a skill of that name, built in or custom.
            InvalidRequest: The name means something else where skills are asked for.
        """
        if name in RESERVED:
            raise InvalidRequest(f"no skill can be called {name!r}: the API means something else by it")
        own = custom_root(self._home, owner) / check_name(name)
        if os.path.lexists(own) or any(skill.name == name for skill in self._skills_of(owner)):
            raise Conflict(f"there is already a skill {name!r}; choose another name, or delete that one first")

    def names(self, owner: str) -> Sequence[str]:
        """What the custom skills are called."""
        root = custom_root(self._home, owner)
        own = {each.name for each in root.iterdir() if is_skill(each)} if root.is_dir() else set()
        return sorted(own | {skill.name for skill in self._skills_of(owner) if skill.category == "custom"})

    def describe(self, owner: str, name: str) -> StoredSkill:
        """A custom skill as it is now."""
        folder = self.folder(owner, name)
        content = read_bytes(folder, SKILL_FILE) or b""
        files = tuple(StoredFile(path, status.st_size, hash_file(folder / path)) for path, status in walk(folder))
        outside = changed_outside(read_lock(owner_folder(self._home, owner)), name, folder)
        text = content.decode("utf-8", errors="replace")
        return StoredSkill(name, text, hashlib.sha256(content).hexdigest(), files, outside)

    def history(self, owner: str, name: str) -> History:
        """What became of a skill, which may be gone."""
        return History(owner_folder(self._home, owner) / "history" / check_name(name))

    def staging(self, owner: str) -> Path:
        """A folder, not there yet, for a skill that is being made; what others left behind goes."""
        place = owner_folder(self._home, owner) / ".staging"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in place.iterdir():
            if time.time() - left.lstat().st_mtime > STALE_S:
                discard(left)
        return place / uuid4().hex

    def change(self, owner: str, name: str, change: FileChange, author: Author, verdict: Verdict) -> HistoryEntry:
        """Change one file of a skill.

        Raises:
            Conflict: It is another one by now than whoever changes it has seen.
        """
        with self._alone(owner):
            folder = self.folder(owner, name)
            if read_bytes(folder, change.path) != change.before:
                raise Conflict(f"{change.path!r} of the skill {name!r} was changed meanwhile; load it again")
            history = self.history(owner, name)
            entry = new_entry(change.action, author, verdict, file=change.path)
            entry.before, entry.after = text_of(change.before), text_of(change.after)
            if change.before is not None and entry.before is None:
                keep(folder / change.path, history.kept(entry.id))
                entry.kept = True
            history.append(entry)
            write(folder, change.path, change.after)
            sha256 = None if change.after is None else hashlib.sha256(change.after).hexdigest()
            lock_file(owner_folder(self._home, owner), name, change.path, sha256)
            return entry

    def add(self, owner: str, name: str, folder: Path, entry: HistoryEntry) -> None:
        """Make a skill of a folder that was prepared for it.

        Raises:
            Conflict: There is one of that name.
        """
        with self._alone(owner):
            self.check_free(owner, name)
            self._move_in(owner, name, folder)
            self.history(owner, name).append(entry)

    def delete(self, owner: str, name: str, author: Author) -> HistoryEntry:
        """Take a skill away, and keep it until its history is cleared."""
        with self._alone(owner):
            folder = self.folder(owner, name)
            history = self.history(owner, name)
            entry = new_entry("delete", author, Verdict())
            entry.before, entry.kept = text_of(read_bytes(folder, SKILL_FILE)), True
            keep(folder, history.kept(entry.id))
            history.append(entry)
            folder.rename(history.kept(entry.id))
            lock_skill(owner_folder(self._home, owner), name, None)
            return entry

    def clear_history(self, owner: str, name: str) -> None:
        """Forget what became of a skill."""
        with self._alone(owner):
            self.history(owner, name).clear()

    def _move_in(self, owner: str, name: str, folder: Path) -> None:
        target = custom_root(self._home, owner) / name
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.rename(target)  # whoever looks meets the whole skill or none
        lock_skill(owner_folder(self._home, owner), name, target)

    @contextmanager
    def _alone(self, owner: str) -> Iterator[None]:
        """Have nobody else change the skills of `owner`, in this process or another."""
        folder = owner_folder(self._home, owner)
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (folder / MUTEX).open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def check_name(name: str) -> str:
    """Return `name`, if a skill can be called so; else there is none."""
    if len(name) > 64 or not SKILL_NAME.fullmatch(name):
        raise NotFound(f"there is no custom skill {name[:80]!r}")
    return name


def is_skill(folder: Path) -> bool:
    """Whether a folder can be the one of a skill."""
    return bool(SKILL_NAME.fullmatch(folder.name)) and (folder / SKILL_FILE).is_file()


def new_entry(action: Action, author: Author, verdict: Verdict, file: str | None = None) -> HistoryEntry:
    """A change that is made now."""
    return HistoryEntry(
        id=uuid4().hex,
        at=datetime.now(UTC),
        action=action,
        author=author.kind,
        thread_id=author.thread_id,
        file=file,
        scanner=verdict,
    )


def read_bytes(folder: Path, path: str) -> bytes | None:
    """The content of a file of a skill; None when there is none. Links are not followed.

    Raises:
        InvalidRequest: Something else is there.
    """
    target = folder
    for part in path.split("/"):
        target = target / part
        if target.is_symlink():
            raise InvalidRequest(f"{path!r} goes through a link, which is not followed")
    try:
        with os.fdopen(os.open(target, READ), "rb") as file:  # a pipe must not hold the reader up
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidRequest(f"{path!r} is not a file")
            return file.read()
    except IsADirectoryError:
        raise InvalidRequest(f"{path!r} is a folder") from None
    except (FileNotFoundError, NotADirectoryError):
        return None


def text_of(content: bytes | None) -> str | None:
    """A content as text, if it is one and not too long."""
    if content is None or len(content) > MAX_TEXT:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def write(folder: Path, path: str, content: bytes | None) -> None:
    """Have a file say something else, or be gone, with the folders that it leaves empty."""
    target = folder / path
    if content is not None:
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        is_new = not target.exists()
        replace_file(target, content)
        if is_new:
            target.chmod(0o644)
        return
    target.unlink(missing_ok=True)
    for parent in target.parents:
        if parent == folder or any(parent.iterdir()):
            break
        parent.rmdir()


def keep(source: Path, target: Path) -> None:
    """Make room for what is to be kept; a file is copied there, a folder is moved by whoever keeps it."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if source.is_file():
        shutil.copyfile(source, target)
