"""The skills of everybody, read once and again when something has changed."""

import asyncio
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from deerflow.skills.folders import Findings, find_skills, take_fingerprint
from deerflow.skills.notices import Notices
from deerflow.skills.roots import custom_root
from deerflow.skills.skill import Category, RefusedSkill, Skill, SkillSet

Switches = Callable[[], Mapping[str, bool]]
"""Which skills are switched on or off, by name; the others are on."""


MAX_KEPT = 1000
"""Roots and sets that are kept; one that is missing is read again."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found below a root."""

    findings: Findings
    edition: tuple[int, int]
    """Which edition of the root was read: there is a new one after each change that is known of."""
    is_told: bool = True
    """Whether the kernel tells of changes below the root."""
    is_absent: bool = False
    """Whether there was no such folder."""
    seen: str = ""
    """How the root looked, where the kernel does not tell."""


class SkillIndex:
    """Knows the skills that come with the program, and those of each person below `home`.

    Folders are read when they are first asked for, when the kernel has noticed a change, and after `reload`.
    """

    def __init__(
        self,
        shipped: Path,
        home: Path,
        switches: Switches = lambda: MappingProxyType({}),
        notices: Notices | None = None,
        watch: Callable[[Path], object] = str,
    ) -> None:
        """Without `notices` the folders are looked at each time somebody asks; `watch` is told of custom ones read."""
        self._shipped = shipped
        self._home = home
        self._switches = switches
        self._notices = notices
        self._watch = watch
        self._readings: dict[Path, Reading] = {}
        self._sets: dict[str, tuple[tuple[object, ...], SkillSet]] = {}
        self._changes: Counter[Path] = Counter()
        self._reloads = 0
        self._reading = threading.Lock()
        self._hearing = threading.Lock()

    def ready(self, owner: str) -> SkillSet | None:
        """The skills of `owner`, if nothing has to be read for them. Costs some microseconds, so anybody may ask."""
        self._hear_of_changes()
        findings = []
        for root in self._roots(owner):
            known = self._readings.get(root)
            if known is None or not known.is_told or not self._is_current(root, known):
                return None
            findings.append(known.findings)
        return self._combined(owner, findings)

    def current(self, owner: str) -> SkillSet:
        """The skills of `owner` as they are now. Reads folders that have changed, so it blocks."""
        with self._reading:
            self._hear_of_changes()
            findings = [self._read(root, category) for root, category in self._roots(owner).items()]
        return self._combined(owner, findings)

    async def load(self, owner: str) -> SkillSet:
        """The skills of `owner` as they are now."""
        ready = self.ready(owner)
        return ready if ready is not None else await asyncio.to_thread(self.current, owner)

    def reload(self) -> None:
        """Read everything again when it is next asked for."""
        self._reloads += 1

    def close(self) -> None:
        """Stop looking after folders."""
        if self._notices is not None:
            self._notices.close()

    def _roots(self, owner: str) -> dict[Path, Category]:
        return {self._shipped: "public", custom_root(self._home, owner): "custom"}

    def _hear_of_changes(self) -> None:
        if self._notices is not None:
            with self._hearing:
                self._changes.update(self._notices.changed())

    def _edition(self, root: Path) -> tuple[int, int]:
        return self._reloads, self._changes[root]

    def _is_current(self, root: Path, known: Reading) -> bool:
        if known.edition != self._edition(root):
            return False
        return not root.exists() if known.is_absent else known.is_told or known.seen == take_fingerprint(root)

    def _read(self, root: Path, category: Category) -> Findings:
        known = self._readings.get(root)
        if known is not None and self._is_current(root, known):
            return known.findings
        # All that is noted here is older than the search: what changes meanwhile makes the reading an old one.
        edition, is_absent = self._edition(root), not root.exists()
        told = [self._notices is not None or is_absent]
        findings = find_skills(root, category, lambda folder: told.append(self._look_after(folder, root)))
        seen = ""
        if not all(told):
            seen, findings = take_fingerprint(root), find_skills(root, category)
        while len(self._readings) >= MAX_KEPT:
            self._readings.pop(next(iter(self._readings)))
        self._readings[root] = Reading(findings, edition, all(told), is_absent, seen)
        if category == "custom":
            self._watch(root)
        return findings

    def _look_after(self, folder: Path, root: Path) -> bool:
        return self._notices is None or self._notices.look_after(folder, root)

    def _combined(self, owner: str, findings: list[Findings]) -> SkillSet:
        switches = self._switches()
        key = (*findings, tuple(sorted(switches.items())))
        known = self._sets.get(owner)
        if known is None or known[0] != key:
            while len(self._sets) >= MAX_KEPT:
                self._sets.pop(next(iter(self._sets)))
            known = self._sets[owner] = key, combine(findings, switches)
        return known[1]


def combine(findings: Iterable[Findings], switches: Mapping[str, bool]) -> SkillSet:
    """The skills of several roots as one set: of two with one name, that of the later root counts."""
    skills: dict[str, Skill] = {}
    refused: list[RefusedSkill] = []
    for found in findings:
        refused += found.refused
        own: dict[str, Skill] = {}
        for skill in found.skills:
            if (first := own.get(skill.name)) is not None:
                why = f"there is already a skill {skill.name!r} in {str(first.relative)!r}; names must be unique"
                refused.append(RefusedSkill(skill.category, str(skill.relative), why))
                continue
            own[skill.name] = replace(skill, enabled=found.switches.get(skill.name, switches.get(skill.name, True)))
        skills |= own
    ordered = {name: skills[name] for name in sorted(skills)}
    return SkillSet(MappingProxyType(ordered), tuple(refused), version_of(ordered.values(), refused))


def version_of(skills: Iterable[Skill], refused: Iterable[RefusedSkill]) -> str:
    """What differs between sets that differ."""
    lines = [f"{skill.location}\0{skill.fingerprint}\0{skill.enabled}" for skill in skills]
    lines += [f"{each.category}\0{each.path}\0{each.reason}" for each in refused]
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:16]
