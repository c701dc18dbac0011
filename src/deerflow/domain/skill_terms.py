"""What the contract of a skill holds an agent to while the skill is active."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from deerflow.domain.sandbox import Confinement

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SkillTerms:
    """The terms of one contract, or of several that hold together."""

    confinement: Confinement = Confinement()
    packages: tuple[str, ...] = ()
    """What commands need to find in the sandbox's Python."""
    seconds: float | None = None
    max_tool_calls: int | None = None


def joint_terms(all_terms: Iterable[SkillTerms]) -> SkillTerms:
    """What may be done under several contracts: whatever one of those that say something of it allows."""
    terms = tuple(all_terms)
    places = [each.confinement for each in terms]
    variables = union([tuple(sorted(each.environment)) if each.environment is not None else None for each in places])
    return SkillTerms(
        Confinement(
            writable=union([each.writable for each in places]),
            hosts=union([each.hosts for each in places]),
            environment=None if variables is None else frozenset(variables),
        ),
        packages=union([each.packages for each in terms]) or (),
    )


def union(lists: Iterable[tuple[T, ...] | None]) -> tuple[T, ...] | None:
    """What is on one of the lists; None where there is none."""
    given = [each for each in lists if each is not None]
    return tuple(dict.fromkeys(item for each in given for item in each)) if given else None


@dataclass(slots=True)
class SkillMeter:
    """How long the skills of one run have been active, and how many tools were called meanwhile."""

    clock: Callable[[], float] = time.monotonic
    began: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The packages that were looked for and not found, by the skill that needs them."""

    def begin(self, names: Iterable[str]) -> None:
        """These are active now."""
        for name in names:
            self.began.setdefault(name, self.clock())

    def count(self, names: Iterable[str]) -> None:
        """A tool is called while these are active."""
        for name in names:
            self.calls[name] = self.calls.get(name, 0) + 1

    def overspent(self, active: Mapping[str, SkillTerms]) -> str | None:
        """Why no more tools may be called; None while one of the skills has something left."""
        complaints = [self._complaint(name, terms) for name, terms in active.items()]
        return "; ".join(filter(None, complaints)) if complaints and all(complaints) else None

    def seconds_left(self, active: Mapping[str, SkillTerms]) -> float | None:
        """How long the longest of their budgets lasts; None: for ever."""
        left = [self._seconds_left(name, terms) for name, terms in active.items()]
        return longest(left)

    def _complaint(self, name: str, terms: SkillTerms) -> str | None:
        seconds = self._seconds_left(name, terms)
        if seconds is not None and seconds <= 0:
            return f"the skill {name!r} may be active for {terms.seconds:g} s, and these are over"
        if terms.max_tool_calls is not None and self.calls.get(name, 0) >= terms.max_tool_calls:
            return f"the skill {name!r} may call {terms.max_tool_calls} tools, and has"
        return None

    def _seconds_left(self, name: str, terms: SkillTerms) -> float | None:
        if terms.seconds is None:
            return None
        return terms.seconds - (self.clock() - self.began.get(name, self.clock()))


def longest(seconds: Sequence[float | None]) -> float | None:
    """The largest; None where one has no end, or there is none."""
    known = [each for each in seconds if each is not None]
    return max(known) if known and len(known) == len(seconds) else None
