"""The skills that one agent may use, and one run of it."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace

from deerflow.domain.skill_terms import SkillTerms
from deerflow.domain.skills import SkillCard
from deerflow.skills.folders import read_skill_file
from deerflow.skills.format import split_skill
from deerflow.skills.skill import Skill, SkillSet


def choose(found: SkillSet, *limits: Collection[str] | None) -> tuple[Skill, ...]:
    """The skills that are switched on and that every one of the limits names; None limits nothing."""
    chosen = found.enabled
    for limit in limits:
        if limit is not None:
            names = frozenset(limit)
            chosen = tuple(skill for skill in chosen if skill.name in names)
    return chosen


class ChosenSkills:
    """The skills of one run. A body that was read once stays the same while it lasts."""

    def __init__(self, skills: Sequence[Skill], uncontracted: SkillTerms | None = None) -> None:
        """`uncontracted`: what a skill without a contract is held to; None: to nothing."""
        self._skills = {skill.name: skill for skill in skills}
        cards = (skill.card for skill in skills)
        self._cards = {card.name: replace(card, terms=card.terms or uncontracted) for card in cards}
        self._names = {skill.location: skill.name for skill in skills}
        self._bodies: dict[str, str] = {}

    def named(self, name: str) -> SkillCard | None:
        return self._cards.get(name)

    def at(self, path: str) -> SkillCard | None:
        return self._cards.get(self._names.get(path, ""))

    async def body(self, name: str) -> str:
        if name not in self._bodies:
            text = await asyncio.to_thread(read_skill_file, self._skills[name].folder)
            self._bodies[name] = split_skill(text)[1].strip()
        return self._bodies[name]
