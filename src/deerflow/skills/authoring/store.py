"""File storage of custom skills. All methods block."""

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

from deerflow.config.loader.files import acquire_lock, replace_file
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.usage import ModelBudget
from deerflow.sandbox.snapshots.comparison import diff_texts, format_name
from deerflow.skills.authoring.history import (
    AuthorKind,
    ChangeAction,
    HistoryEntry,
    SkillHistoryLog,
    Verdict,
    remove_path,
)
from deerflow.skills.authoring.lock import (
    MUTEX_FILE,
    READ_FLAGS,
    SkillSource,
    find_external_changes,
    hash_file,
    lock_file,
    lock_skill,
    lock_source,
    read_lock,
    walk_files,
)
from deerflow.skills.folders import custom_root, owner_folder
from deerflow.skills.format import SKILL_FILE, SKILL_NAME, Skill
from deerflow.skills.scanner.rules import MAX_TEXT

RESERVED_NAMES = ("custom", "install", "reload")
"""Names used by paths of the HTTP API."""
STALE_STAGING_S = 3600.0
"""Age after which a staging folder is considered abandoned."""


@dataclass(frozen=True, slots=True)
class Author:
    """Author of a change, with the thread it was made in."""

    kind: AuthorKind = "person"
    thread_id: str | None = None
    budget: ModelBudget | None = None
    """Budget that the review is charged to, for changes made in a run."""


@dataclass(frozen=True, slots=True)
class SkillFileChange:
    """Change of one file: expected content before, and new content after."""

    action: ChangeAction
    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a custom skill."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class StoredSkill:
    """A custom skill with its files."""

    name: str
    content: str
    """Content of SKILL.md."""
    sha256: str
    files: tuple[StoredFile, ...]
    changed_outside: tuple[str, ...]
    source: SkillSource | None = None
    """Origin of the skill, if it was installed from a URL."""


class SkillStore:
    """Custom skills below `home`. `list_skills` finds skills in nested folders."""

    def __init__(self, home: Path, list_skills: Callable[[str], Sequence[Skill]]) -> None:
        self._home = home
        self._list_skills = list_skills

    def folder(self, owner: str, name: str) -> Path:
        """Return the folder of a custom skill.

        Raises:
            NotFound: There is no such skill.
            Conflict: The skill is built-in.
        """
        folder = custom_root(self._home, owner) / check_name(name)
        if folder.is_dir() and not folder.is_symlink():
            return folder
        known = next((skill for skill in self._list_skills(owner) if skill.name == name), None)
        if known is None:
            raise NotFound(f"custom skill not found: {name!r}")
        if not known.editable:
            where = "in the project folder" if known.is_shared else "built-in"
            raise Conflict(f"skill {name!r} is {where} and cannot be changed; create one with another name")
        return known.folder

    def check_name_available(self, owner: str, name: str) -> None:
        """Refuse a name that is taken.

        Raises:
            Conflict: There is a skill with that name.
            InvalidRequest: The name is reserved.
        """
        if name in RESERVED_NAMES:
            raise InvalidRequest(f"skill name {name!r} is reserved")
        folder = custom_root(self._home, owner) / check_name(name)
        if os.path.lexists(folder) or any(skill.name == name for skill in self._list_skills(owner)):
            raise Conflict(f"skill {name!r} already exists; choose another name, or delete it first")

    def list_names(self, owner: str) -> Sequence[str]:
        """Return the names of the custom skills."""
        root = custom_root(self._home, owner)
        top_level = {each.name for each in root.iterdir() if is_skill(each)} if root.is_dir() else set()
        return sorted(top_level | {skill.name for skill in self._list_skills(owner) if skill.editable})

    def describe(self, owner: str, name: str) -> StoredSkill:
        """Return a custom skill with its files."""
        with self._lock_owner(owner):
            folder = self.folder(owner, name)
            content = read_bytes(folder, SKILL_FILE) or b""
            files = tuple(
                StoredFile(path, status.st_size, hash_file(folder / path)) for path, status in walk_files(folder)
            )
            lock = read_lock(owner_folder(self._home, owner))
            changes, source = find_external_changes(lock, name, folder), lock.sources.get(name)
        text = content.decode("utf-8", errors="replace")
        return StoredSkill(name, text, hashlib.sha256(content).hexdigest(), files, changes, source)

    def history(self, owner: str, name: str) -> SkillHistoryLog:
        """Return the history of a skill, which may be deleted."""
        return SkillHistoryLog(owner_folder(self._home, owner) / "history" / check_name(name))

    def create_staging_path(self, owner: str) -> Path:
        """Return the path of a new staging folder, and remove abandoned ones."""
        staging = owner_folder(self._home, owner) / ".staging"
        staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        for leftover in staging.iterdir():
            if time.time() - leftover.lstat().st_mtime > STALE_STAGING_S:
                remove_path(leftover)
        return staging / uuid4().hex

    def apply_change(
        self, owner: str, name: str, change: SkillFileChange, author: Author, verdict: Verdict
    ) -> HistoryEntry:
        """Change one file of a skill.

        Raises:
            Conflict: The file was changed in the meantime.
        """
        with self._lock_owner(owner):
            folder = self.folder(owner, name)
            if read_bytes(folder, change.path) != change.before:
                raise Conflict(f"{change.path!r} of skill {name!r} was changed in the meantime; load it again")
            history = self.history(owner, name)
            entry = create_entry(change.action, author, verdict, file=change.path)
            entry.before, entry.after = decode_text(change.before), decode_text(change.after)
            if change.before is not None and entry.before is None:
                back_up(folder / change.path, history.backup_path(entry.id))
                entry.kept = True
            history.append(entry)
            write_content(folder, change.path, change.after)
            sha256 = None if change.after is None else hashlib.sha256(change.after).hexdigest()
            lock_file(owner_folder(self._home, owner), name, change.path, sha256)
            return entry

    def add(self, owner: str, name: str, folder: Path, entry: HistoryEntry, source: SkillSource | None = None) -> None:
        """Add a skill by moving a staging folder into place.

        Raises:
            Conflict: The name is taken.
        """
        with self._lock_owner(owner):
            self.check_name_available(owner, name)
            self._move_into_place(owner, name, folder)
            lock_source(owner_folder(self._home, owner), name, source)
            self.history(owner, name).append(entry)

    def replace(
        self, owner: str, name: str, folder: Path, entry: HistoryEntry, source: SkillSource | None = None
    ) -> None:
        """Replace a whole skill by a staging folder, keeping a backup until its history is cleared."""
        with self._lock_owner(owner):
            replaced, history = self.folder(owner, name), self.history(owner, name)
            entry.before, entry.kept = decode_text(read_bytes(replaced, SKILL_FILE)), True
            entry.source = read_lock(owner_folder(self._home, owner)).sources.get(name)
            back_up(replaced, history.backup_path(entry.id))
            history.append(entry)
            replaced.rename(history.backup_path(entry.id))
            self._move_into_place(owner, name, folder)
            lock_source(owner_folder(self._home, owner), name, source)

    def delete(self, owner: str, name: str, author: Author) -> HistoryEntry:
        """Delete a skill, keeping a backup until its history is cleared."""
        with self._lock_owner(owner):
            folder = self.folder(owner, name)
            history = self.history(owner, name)
            entry = create_entry("delete", author, Verdict())
            entry.before, entry.kept = decode_text(read_bytes(folder, SKILL_FILE)), True
            entry.source = read_lock(owner_folder(self._home, owner)).sources.get(name)
            back_up(folder, history.backup_path(entry.id))
            history.append(entry)
            folder.rename(history.backup_path(entry.id))
            lock_skill(owner_folder(self._home, owner), name, None)
            lock_source(owner_folder(self._home, owner), name, None)
            return entry

    def clear_history(self, owner: str, name: str) -> None:
        """Delete the history of a skill."""
        with self._lock_owner(owner):
            self.history(owner, name).clear()

    def _move_into_place(self, owner: str, name: str, folder: Path) -> None:
        target = custom_root(self._home, owner) / name
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.rename(target)  # atomic: readers see the whole skill or none
        lock_skill(owner_folder(self._home, owner), name, target)

    @contextmanager
    def _lock_owner(self, owner: str) -> Iterator[None]:
        """Hold the lock for changes of the skills of `owner`, across processes."""
        folder = owner_folder(self._home, owner)
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (folder / MUTEX_FILE).open("wb") as file:
            acquire_lock(file)
            yield


def check_name(name: str) -> str:
    """Return `name` if it is a valid skill name, else raise `NotFound`."""
    if len(name) > 64 or not SKILL_NAME.fullmatch(name):
        raise NotFound(f"custom skill not found: {name[:80]!r}")
    return name


def is_skill(folder: Path) -> bool:
    """Return True if a folder is named like a skill and has a SKILL.md."""
    return bool(SKILL_NAME.fullmatch(folder.name)) and (folder / SKILL_FILE).is_file()


def create_entry(action: ChangeAction, author: Author, verdict: Verdict, file: str | None = None) -> HistoryEntry:
    """Return a history entry for a change made now."""
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
    """Return the content of a file of a skill, or None. Links are not followed.

    Raises:
        InvalidRequest: The path is not a regular file.
    """
    target = folder
    for part in path.split("/"):
        target = target / part
        if target.is_symlink():
            raise InvalidRequest(f"{path!r} contains a symbolic link, which is not followed")
    try:
        with os.fdopen(os.open(target, READ_FLAGS), "rb") as file:  # non-blocking, in case it is a pipe
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidRequest(f"{path!r} is not a file")
            return file.read()
    except IsADirectoryError:
        raise InvalidRequest(f"{path!r} is a folder") from None
    except (FileNotFoundError, NotADirectoryError):
        return None


def decode_text(content: bytes | None) -> str | None:
    """Return content as text, or None if it is binary or too long."""
    if content is None or len(content) > MAX_TEXT:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def write_content(folder: Path, path: str, content: bytes | None) -> None:
    """Write or remove a file. Folders that become empty are removed."""
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


def diff_folders(before: Path, after: Path) -> str:
    """Return the unified diffs of all files that differ. Binary files are only named. Blocks."""
    old, new = ({path: hash_file(root / path, status) for path, status in walk_files(root)} for root in (before, after))
    changed = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    return "".join(_diff_file(before, after, path) for path in changed)


def _diff_file(before: Path, after: Path, path: str) -> str:
    contents = [read_bytes(root, path) for root in (before, after)]
    texts = [decode_text(content) for content in contents]
    names = [None if content is None else f"/{path}" for content in contents]
    if any(content is not None and text is None for content, text in zip(contents, texts, strict=True)):
        return f"Binary files {format_name('a', names[0])} and {format_name('b', names[1])} differ\n"
    return diff_texts(texts[0] or "", texts[1] or "", *names).diff


def back_up(source: Path, target: Path) -> None:
    """Create the backup folder and copy a file there. Folders are moved by the caller."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if source.is_file():
        shutil.copyfile(source, target)
