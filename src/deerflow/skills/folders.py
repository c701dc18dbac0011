"""Discovery of skills in folders, and the enabled flags of custom skills."""

import hashlib
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK, replace_file
from deerflow.domain.errors import SkillInvalid
from deerflow.domain.identity import check_user_id
from deerflow.skills.contract import read_contract
from deerflow.skills.format import MAX_SKILL_BYTES, SKILL_FILE, Category, RejectedSkill, Skill, parse_skill

logger = logging.getLogger(__name__)

SWITCHES_FILE = ".switches.json"
MAX_BYTES = 1024 * 1024


def read_switches(root: Path) -> Mapping[str, bool]:
    """Return the enabled flags in `root` by skill name. Empty if the file is missing or invalid."""
    try:
        with (root / SWITCHES_FILE).open("rb") as file:
            data = json.loads(file.read(MAX_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        logger.warning("ignoring invalid %s: %s", root / SWITCHES_FILE, problem)
        return {}
    entries = data.items() if isinstance(data, dict) else ()
    return {name: enabled for name, enabled in entries if isinstance(enabled, bool)}


def write_switch(root: Path, name: str, *, enabled: bool) -> None:
    """Enable or disable a skill in `root`."""
    switches = {**read_switches(root), name: enabled}
    replace_file(root / SWITCHES_FILE, json.dumps(switches, indent=2, sort_keys=True).encode() + b"\n")


MAX_DEPTH = 8
MAX_ENTRIES = 100_000
"""Maximum number of files and folders below one root."""
MAX_FILES, MAX_TOTAL_BYTES = 4096, 512 * 2**20
"""Limits of one skill."""
IGNORED_NAMES = frozenset({"__MACOSX", "__pycache__", "node_modules", ".git", ".DS_Store"})
"""Names that are ignored in every folder."""


@dataclass(slots=True, eq=False)
class DiscoveredSkills:
    """Skills found below one root."""

    skills: list[Skill] = field(default_factory=list)
    rejected: list[RejectedSkill] = field(default_factory=list)
    switches: Mapping[str, bool] = field(default_factory=dict)
    """Enabled flags, for custom roots."""


def find_skills(root: Path, category: Category, on_folder: Callable[[Path], object] = str) -> DiscoveredSkills:
    """Find the skills below `root`, sorted by folder. Links are not followed.

    `on_folder` is called with each folder before it is listed, so that a watcher misses no change.
    """
    discovered = DiscoveredSkills()
    FolderScan(root, category, discovered, on_folder).scan(root, 0)
    discovered.switches = read_switches(root) if category == "custom" else {}
    discovered.skills.sort(key=lambda skill: str(skill.relative))
    discovered.rejected.sort(key=lambda rejected: rejected.path)
    return discovered


@dataclass(slots=True)
class FolderScan:
    """A scan of one root."""

    root: Path
    category: Category
    discovered: DiscoveredSkills
    on_folder: Callable[[Path], object]
    entries: int = 0

    def scan(self, folder: Path, depth: int) -> None:
        """Scan `folder`, which is either a skill or contains folders with skills."""
        self.on_folder(folder)
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            self._reject(folder, f"cannot be read: {describe_os_error(error)}")
            return
        self.entries += len(entries)
        if self.entries > MAX_ENTRIES:
            self._reject(folder, f"more than {MAX_ENTRIES:,} files; skills are small folders")
        elif folder != self.root and any(entry.name == SKILL_FILE for entry in entries):
            self._add_skill(folder)
        else:
            self._scan_subfolders(folder, entries, depth)

    def _scan_subfolders(self, folder: Path, entries: list[os.DirEntry[str]], depth: int) -> None:
        for entry in entries:
            if entry.name == SKILL_FILE:
                self._reject(folder, f"{SKILL_FILE}: a skill needs a folder of its own; move the file into one")
            elif entry.name.upper() == SKILL_FILE.upper():
                self._reject(folder, f"{entry.name}: must be called {SKILL_FILE}; rename it")
            subfolder = folder / entry.name
            if entry.name.startswith(".") or entry.name in IGNORED_NAMES:
                continue
            if entry.is_symlink() and entry.is_dir():
                self._reject(subfolder, "symbolic links are not followed; move the folder itself here")
            elif entry.is_dir(follow_symlinks=False):
                if depth == MAX_DEPTH:
                    self._reject(subfolder, f"is more than {MAX_DEPTH} folders deep")
                else:
                    self.scan(subfolder, depth + 1)

    def _add_skill(self, folder: Path) -> None:
        """Read the skill in `folder`. All subfolders belong to it."""
        try:
            relative = folder.relative_to(self.root)
            if to_display_path(relative) != relative.as_posix():
                raise SkillInvalid("folder name is not valid UTF-8; rename it")
            fingerprint = compute_fingerprint(folder, self.on_folder, max_files=MAX_FILES)
            header = parse_skill(read_skill_file(folder), folder=folder.name)
            contract = read_contract(folder)
        except SkillInvalid as error:
            self._reject(folder, str(error))
            return
        self.discovered.skills.append(
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

    def _reject(self, folder: Path, why: str) -> None:
        path = to_display_path(folder.relative_to(self.root))
        self.discovered.rejected.append(RejectedSkill(self.category, path, why))


def read_skill_file(folder: Path) -> str:
    """Return the content of the SKILL.md in `folder`.

    Raises:
        SkillInvalid: The file cannot be read.
    """
    try:
        # Do not follow links, and do not block on a pipe.
        descriptor = os.open(folder / SKILL_FILE, os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SkillInvalid(f"{SKILL_FILE}: is not a file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_SKILL_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        is_link = (folder / SKILL_FILE).is_symlink()
        why = "symbolic links are not followed" if is_link else f"cannot be read: {describe_os_error(error)}"
        raise SkillInvalid(f"{SKILL_FILE}: {why}") from None
    if len(content) > MAX_SKILL_BYTES:
        advice = "move parts of it to files in references/"
        raise SkillInvalid(f"{SKILL_FILE}: is larger than {MAX_SKILL_BYTES // 1024} KB; {advice}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SkillInvalid(f"{SKILL_FILE}: is not UTF-8 text; save it in that encoding") from None


def compute_fingerprint(
    folder: Path, on_folder: Callable[[Path], object] = str, *, max_files: int | None = None
) -> str:
    """Return a hash that changes with every file below `folder`. `on_folder` is called before each folder is listed.

    Raises:
        SkillInvalid: The folder exceeds the limits of a skill.
    """
    state, files, size = hashlib.sha256(), 0, 0
    for entry in walk_entries(folder, on_folder):
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # removed since it was listed
        if not stat.S_ISDIR(status.st_mode):
            files, size = files + 1, size + status.st_size
            if max_files is not None and (files > max_files or size > MAX_TOTAL_BYTES):
                limit = f"{max_files:,} files and {MAX_TOTAL_BYTES // 2**20} MB"
                raise SkillInvalid(f"skill folder is too large; the limit is {limit}")
            entry_state = f"{status.st_mtime_ns} {status.st_size} {status.st_ino} {status.st_mode}\n"
            state.update(os.fsencode(entry.path) + b"\0" + entry_state.encode())
    return state.hexdigest()


def walk_entries(folder: Path, on_folder: Callable[[Path], object] = str) -> Iterator[os.DirEntry[str]]:
    """Yield everything below `folder` in a stable order. Links are yielded but not followed."""
    pending = [str(folder)]
    while pending:
        subfolder = pending.pop()
        on_folder(Path(subfolder))
        try:
            with os.scandir(subfolder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        entries = [entry for entry in entries if entry.name not in IGNORED_NAMES]
        yield from entries
        pending.extend(entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False))


def to_display_path(path: Path) -> str:
    """Return a path as text, with invalid bytes replaced."""
    return os.fsencode(path.as_posix()).decode(errors="replace")


def describe_os_error(error: OSError) -> str:
    """Return the message of an OSError in lower case."""
    return (error.strerror or str(error)).lower()


def builtin_root() -> Path:
    """Return the folder of the built-in skills: next to this module if installed, else in the repository."""
    here = Path(__file__).parent
    installed = here / "public"
    return installed if installed.is_dir() else here.parents[2] / "skills" / "public"


def owner_folder(home: Path, owner: str) -> Path:
    """Return the folder with all data about the skills of one user.

    Raises:
        InvalidRequest: The user id is invalid.
    """
    return home / "users" / check_user_id(owner) / "skills"


def custom_root(home: Path, owner: str) -> Path:
    """Return the folder with the custom skills of one user."""
    return owner_folder(home, owner) / "custom"
