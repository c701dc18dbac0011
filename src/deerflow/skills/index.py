"""Index of skill folders, cached and refreshed after changes."""

import asyncio
import ctypes
import errno
import hashlib
import os
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from deerflow.config.sections.base import Settings
from deerflow.domain.identity import FindShared, SharedThing, share_nothing
from deerflow.skills.folders import DiscoveredSkills, compute_fingerprint, custom_root, find_skills
from deerflow.skills.format import Category, RejectedSkill, Skill, SkillSet

CHANGE_EVENTS = 0x002 | 0x008 | 0x040 | 0x080 | 0x100 | 0x200 | 0x400 | 0x800
"""inotify events: modify, close after write, move, create, delete, and delete or move of the folder itself.

Attribute changes are not included, because a hard link made elsewhere causes one.
"""
ONLY_DIRECTORIES, DONT_FOLLOW = 0x0100_0000, 0x0200_0000
QUEUE_OVERFLOW, WATCH_REMOVED = 0x4000, 0x8000
EVENT_FORMAT, EVENT_SIZE = "iIII", 16
BUFFER_SIZE = 64 * 1024


class FolderWatcher:
    """Watcher for changes in folders, based on inotify. Created by `open_folder_watcher`."""

    def __init__(self, descriptor: int, libc: ctypes.CDLL) -> None:
        self._descriptor = descriptor
        self._libc = libc
        self._roots_by_watch: dict[int, set[Path]] = {}
        self._lock = threading.Lock()

    def watch(self, folder: Path, root: Path) -> bool:
        """Watch a folder and report its changes as changes of `root`. Return False if the kernel cannot watch it."""
        with self._lock:
            flags = CHANGE_EVENTS | ONLY_DIRECTORIES | DONT_FOLLOW
            watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), flags)
            if watch < 0:
                # A folder that was just removed changed its parent, which is watched.
                return ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR)
            self._roots_by_watch.setdefault(watch, set()).add(root)
            return True

    def poll(self) -> frozenset[Path]:
        """Return the roots that have changed since the last call. Takes about a microsecond."""
        with self._lock:
            return frozenset(self._read()) if self._descriptor >= 0 else frozenset()

    def close(self) -> None:
        """Stop watching. Later polls return nothing."""
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> Iterator[Path]:
        while events := self._next():
            at = 0
            while at < len(events):
                watch, mask, _, length = struct.unpack_from(EVENT_FORMAT, events, at)
                at += EVENT_SIZE + length
                if mask & QUEUE_OVERFLOW:
                    yield from {root for roots in self._roots_by_watch.values() for root in roots}
                yield from self._roots_by_watch.get(watch, ())
                if mask & WATCH_REMOVED:
                    self._roots_by_watch.pop(watch, None)

    def _next(self) -> bytes:
        try:
            return os.read(self._descriptor, BUFFER_SIZE)
        except BlockingIOError:
            return b""


def open_folder_watcher() -> FolderWatcher | None:
    """Return a folder watcher, or None if the system does not support it."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return FolderWatcher(descriptor, libc) if descriptor >= 0 else None


Switches = Settings[Mapping[str, bool]]
"""Enabled flags by skill name. Skills that are not listed are enabled."""


MAX_CACHED = 1000
"""Maximum number of cached scans and sets."""


@dataclass(frozen=True, slots=True)
class CachedScan:
    """Cached scan of a root folder."""

    discovered: DiscoveredSkills
    version: tuple[int, int]
    """Version of the root at the start of the scan; it increases with each known change."""
    is_watched: bool = True
    """True if the kernel reports changes below the root."""
    is_absent: bool = False
    """True if the folder did not exist."""
    fingerprint: str = ""
    """Fingerprint of a root that is not watched."""


class SkillIndex:
    """Index of the built-in skills and the custom skills of each user below `home`.

    Folders are scanned on first use, after a change reported by the kernel, and after `reload`.
    """

    def __init__(
        self,
        builtin_root: Path,
        home: Path,
        switches: Switches | None = None,
        watcher: FolderWatcher | None = None,
        on_custom_read: Callable[[Path], object] = str,
        project_root: Path | None = None,
        find_shared: FindShared = share_nothing,
    ) -> None:
        """Create an index. Without a `watcher`, folders are compared on each read.

        `on_custom_read` is called with the custom root of each user after it was scanned. The folders `public` and
        `custom` in `project_root` hold skills for all users. `find_shared` tells which skills of others a user has.
        """
        self._builtin_root = builtin_root
        self._home = home
        self._switches = switches or Settings(lambda: MappingProxyType({}))
        self._watcher = watcher
        self._on_custom_read = on_custom_read
        self._find_shared = find_shared
        self._project_roots = find_project_roots(project_root, builtin_root) if project_root is not None else {}
        self._scans: dict[Path, CachedScan] = {}
        self._sets: dict[str, tuple[tuple[object, ...], SkillSet]] = {}
        self._changes: Counter[Path] = Counter()
        self._reloads = 0
        self._scan_lock = threading.Lock()
        self._poll_lock = threading.Lock()

    def get_cached(self, owner: str) -> SkillSet | None:
        """Return the skills of `owner` if no folder must be read, else None. Takes some microseconds."""
        self._poll_changes()
        discovered, shared = {}, self._shared_skills(owner)
        for root in self._roots(owner, shared):
            known = self._scans.get(root)
            if known is None or not known.is_watched or not self._is_current(root, known):
                return None
            discovered[root] = known.discovered
        return self._merge(owner, discovered, shared)

    def read(self, owner: str) -> SkillSet:
        """Return the current skills of `owner`. Reads changed folders, so it blocks."""
        with self._scan_lock:
            self._poll_changes()
            shared = self._shared_skills(owner)
            discovered = {root: self._read(root, category) for root, category in self._roots(owner, shared).items()}
        return self._merge(owner, discovered, shared)

    async def load(self, owner: str) -> SkillSet:
        """Return the current skills of `owner`."""
        cached = self.get_cached(owner)
        return cached if cached is not None else await asyncio.to_thread(self.read, owner)

    def reload(self) -> None:
        """Discard all scans, so that folders are read again on next use."""
        self._reloads += 1

    def close(self) -> None:
        """Stop watching folders."""
        if self._watcher is not None:
            self._watcher.close()

    def _shared_skills(self, owner: str) -> tuple[SharedThing, ...]:
        return tuple(each for each in self._find_shared(owner) if each.kind == "skill")

    def _roots(self, owner: str, shared: Sequence[SharedThing]) -> dict[Path, Category]:
        others: dict[Path, Category] = {custom_root(self._home, each.owner): "custom" for each in shared}
        own: dict[Path, Category] = {self._builtin_root: "public", **self._project_roots}
        return {**others, **own, custom_root(self._home, owner): "custom"}

    def _poll_changes(self) -> None:
        if self._watcher is not None:
            with self._poll_lock:
                self._changes.update(self._watcher.poll())

    def _version(self, root: Path) -> tuple[int, int]:
        return self._reloads, self._changes[root]

    def _is_current(self, root: Path, known: CachedScan) -> bool:
        if known.version != self._version(root):
            return False
        return (
            not root.exists() if known.is_absent else known.is_watched or known.fingerprint == compute_fingerprint(root)
        )

    def _read(self, root: Path, category: Category) -> DiscoveredSkills:
        known = self._scans.get(root)
        if known is not None and self._is_current(root, known):
            return known.discovered
        # The version is taken before the scan, so a change during the scan makes the cached result outdated.
        version, is_absent = self._version(root), not root.exists()
        watched = [self._watcher is not None or is_absent]
        discovered = find_skills(root, category, lambda folder: watched.append(self._watch_folder(folder, root)))
        fingerprint = ""
        if not all(watched):
            fingerprint, discovered = compute_fingerprint(root), find_skills(root, category)
        if root in self._project_roots:
            discovered.switches = {}  # `extensions_config.json` has those of all users
            discovered.skills = [replace(skill, is_shared=True) for skill in discovered.skills]
        while len(self._scans) >= MAX_CACHED:
            self._scans.pop(next(iter(self._scans)))
        self._scans[root] = CachedScan(discovered, version, all(watched), is_absent, fingerprint)
        if category == "custom" and root not in self._project_roots:
            self._on_custom_read(root)
        return discovered

    def _watch_folder(self, folder: Path, root: Path) -> bool:
        return self._watcher is None or self._watcher.watch(folder, root)

    def _merge(
        self, owner: str, discovered: Mapping[Path, DiscoveredSkills], shared: tuple[SharedThing, ...]
    ) -> SkillSet:
        switches = self._switches.current
        key = (*discovered.values(), shared, tuple(sorted(switches.items())))
        known = self._sets.get(owner)
        if known is None or known[0] != key:
            while len(self._sets) >= MAX_CACHED:
                self._sets.pop(next(iter(self._sets)))
            others = {custom_root(self._home, each.owner): each.owner for each in shared}
            own = merge_scans([found for root, found in discovered.items() if root not in others], switches)
            scans = {person: discovered[root] for root, person in others.items()}
            known = self._sets[owner] = key, add_shared_skills(own, scans, shared)
        return known[1]


def find_project_roots(folder: Path, builtin_root: Path) -> dict[Path, Category]:
    """Return the folders with skills in a project; the built-in folder is not repeated."""
    roots: dict[Path, Category] = {folder / "public": "public", folder / "custom": "custom"}
    return {root: category for root, category in roots.items() if root.resolve() != builtin_root.resolve()}


def merge_scans(discovered: Iterable[DiscoveredSkills], switches: Mapping[str, bool]) -> SkillSet:
    """Merge the skills of several roots into one set. Later roots override earlier ones by name."""
    skills: dict[str, Skill] = {}
    rejected: list[RejectedSkill] = []
    for found in discovered:
        rejected += found.rejected
        own: dict[str, Skill] = {}
        for skill in found.skills:
            if (first := own.get(skill.name)) is not None:
                reason = f"duplicate skill {skill.name!r}, also in {str(first.relative)!r}; names must be unique"
                rejected.append(RejectedSkill(skill.category, str(skill.relative), reason))
                continue
            own[skill.name] = replace(skill, enabled=found.switches.get(skill.name, switches.get(skill.name, True)))
        hidden = {skill.location for skill in own.values()}
        for skill in [each for each in skills.values() if each.location in hidden and each.name not in own]:
            reason = f"a custom skill with another name is in a folder of the same name, {skill.relative.name!r}"
            rejected.append(RejectedSkill(skill.category, str(skill.relative), reason))
            del skills[skill.name]
        skills |= own
    ordered = {name: skills[name] for name in sorted(skills)}
    return SkillSet(MappingProxyType(ordered), tuple(rejected), compute_version(ordered.values(), rejected))


def add_shared_skills(own: SkillSet, scans: Mapping[str, DiscoveredSkills], shared: Sequence[SharedThing]) -> SkillSet:
    """Add the skills that others share. They never replace a skill of the same name: a shared one is rejected then."""
    if not shared:
        return own
    skills, rejected = dict(own.skills), list(own.rejected)
    for share in shared:
        skill = next((each for each in scans[share.owner].skills if each.name == share.name), None)
        if skill is None:
            continue  # deleted, or invalid
        folder = PurePosixPath(share.owner) / skill.relative
        skill = replace(skill, category="shared", relative=folder, share=share, enabled=share.is_accepted)
        if (other := skills.get(skill.name)) is not None:
            whose = f"that {other.share.shared_by} shares" if other.share else "of yours, or of this server"
            reason = f"hidden by the skill {skill.name!r} {whose}; this one is shared by {share.shared_by}"
            rejected.append(RejectedSkill("shared", str(folder), reason))
        else:
            skills[skill.name] = skill
    ordered = {name: skills[name] for name in sorted(skills)}
    return SkillSet(MappingProxyType(ordered), tuple(rejected), compute_version(ordered.values(), rejected))


def compute_version(skills: Iterable[Skill], rejected: Iterable[RejectedSkill]) -> str:
    """Return a hash that identifies a set of skills."""
    lines = [f"{skill.location}\0{skill.fingerprint}\0{skill.enabled}" for skill in skills]
    lines += [f"{each.category}\0{each.path}\0{each.reason}" for each in rejected]
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:16]
