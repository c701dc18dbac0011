"""Skills, as an agent and its run see them."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from deerflow.domain.sandbox import Confinement

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SkillTerms:
    """The limits of one skill contract, or of several combined."""

    confinement: Confinement = Confinement()
    packages: tuple[str, ...] = ()
    """The packages that must be installed in the sandbox's Python."""
    seconds: float | None = None
    max_tool_calls: int | None = None


def merge_terms(all_terms: Iterable[SkillTerms]) -> SkillTerms:
    """Return the combined terms of several contracts: what any contract that restricts it allows."""
    terms = tuple(all_terms)
    limits = [each.confinement for each in terms]
    variables = union([tuple(sorted(each.environment)) if each.environment is not None else None for each in limits])
    return SkillTerms(
        Confinement(
            writable=union([each.writable for each in limits]),
            hosts=union([each.hosts for each in limits]),
            environment=None if variables is None else frozenset(variables),
        ),
        packages=union([each.packages for each in terms]) or (),
    )


def union(lists: Iterable[tuple[T, ...] | None]) -> tuple[T, ...] | None:
    """Return the union of the given lists, without duplicates; None when all are None."""
    given = [each for each in lists if each is not None]
    return tuple(dict.fromkeys(item for each in given for item in each)) if given else None


@dataclass(slots=True)
class SkillMeter:
    """The time and tool calls used by the active skills of one run."""

    clock: Callable[[], float] = time.monotonic
    began: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    missing_packages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Missing packages by skill."""

    def begin(self, names: Iterable[str]) -> None:
        """Start the clocks of newly active skills."""
        for name in names:
            self.began.setdefault(name, self.clock())

    def count(self, names: Iterable[str]) -> None:
        """Count a tool call for each active skill."""
        for name in names:
            self.calls[name] = self.calls.get(name, 0) + 1

    def find_exceeded_budget(self, active: Mapping[str, SkillTerms]) -> str | None:
        """Return why no more tools may be called; None while any of the skills has budget left."""
        reasons = [self._find_exceeded(name, terms) for name, terms in active.items()]
        return "; ".join(filter(None, reasons)) if reasons and all(reasons) else None

    def seconds_left(self, active: Mapping[str, SkillTerms]) -> float | None:
        """Return the longest remaining time of the active skills; None when unlimited."""
        left = [self._seconds_left(name, terms) for name, terms in active.items()]
        return max_if_all_set(left)

    def _find_exceeded(self, name: str, terms: SkillTerms) -> str | None:
        seconds = self._seconds_left(name, terms)
        if seconds is not None and seconds <= 0:
            return f"the skill {name!r} has exceeded its time limit of {terms.seconds:g} s"
        if terms.max_tool_calls is not None and self.calls.get(name, 0) >= terms.max_tool_calls:
            return f"the skill {name!r} has reached its limit of {terms.max_tool_calls} tool calls"
        return None

    def _seconds_left(self, name: str, terms: SkillTerms) -> float | None:
        if terms.seconds is None:
            return None
        return terms.seconds - (self.clock() - self.began.get(name, self.clock()))


def max_if_all_set(seconds: Sequence[float | None]) -> float | None:
    """Return the maximum; None when the sequence is empty or contains None."""
    known = [each for each in seconds if each is not None]
    return max(known) if known and len(known) == len(seconds) else None


@dataclass(frozen=True, slots=True)
class SkillMetadata:
    """The part of a skill that the agent knows before it loads the skill."""

    name: str
    description: str
    location: str
    editable: bool = False
    allowed_tools: tuple[str, ...] | None = None
    """The tools allowed while it is active; None for no restriction."""
    terms: SkillTerms | None = None
    """The limits of its contract; None when it has no contract."""

    @property
    def mark(self) -> str:
        """Text that tells the agent whose skill it is."""
        if self.editable:
            return "[custom, editable]"
        return "[shared by another person]" if "/shared/" in self.location else "[built-in]"


@runtime_checkable  # LangChain validates the run context with isinstance
class RunSkills(Protocol):
    """The skills available to the agent of one run, as they were when it started."""

    def find(self, name: str) -> SkillMetadata | None:
        """Return the skill with this name."""
        ...

    def find_by_path(self, path: str) -> SkillMetadata | None:
        """Return the skill whose SKILL.md has this path."""
        ...

    async def read_body(self, name: str) -> str:
        """Return the text of a skill below its header.

        Raises:
            SkillInvalid: The skill can no longer be read.
        """
        ...


@runtime_checkable
class SkillEditor(Protocol):
    """Creates and changes custom skills of a run's user for its agent; each change is reviewed first.

    Every method raises a `DeerFlowError` whose text says what is wrong; in this case nothing was changed.
    """

    async def create(self, name: str, content: str) -> None: ...
    async def edit(self, name: str, content: str) -> None: ...
    async def patch(self, name: str, find: str, replace: str, path: str | None, expected_count: int) -> None: ...
    async def delete(self, name: str) -> None: ...
    async def write_file(self, name: str, path: str, content: str) -> None: ...
    async def remove_file(self, name: str, path: str) -> None: ...
