"""Skills, as an agent and its run know them."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from deerflow.domain.skill_terms import SkillTerms


@dataclass(frozen=True, slots=True)
class SkillCard:
    """What the agent knows of a skill before it reads it."""

    name: str
    description: str
    location: str
    editable: bool = False
    allowed_tools: tuple[str, ...] | None = None
    """The tools it may use while it is active; None: it limits nothing."""
    terms: SkillTerms | None = None
    """What its contract holds the agent to while it is active; None: there is none."""


@runtime_checkable  # LangChain validates the run context with isinstance
class RunSkills(Protocol):
    """The skills that the agent of one run may use, as they were when it began."""

    def named(self, name: str) -> SkillCard | None:
        """The skill of that name."""
        ...

    def at(self, path: str) -> SkillCard | None:
        """The skill whose SKILL.md is at that path."""
        ...

    async def body(self, name: str) -> str:
        """What a skill says below its header.

        Raises:
            SkillInvalid: It cannot be read any more.
        """
        ...


@runtime_checkable
class SkillEditor(Protocol):
    """Makes and changes custom skills of a run's user in the name of its agent; each change is reviewed first.

    Every method raises a `DeerFlowError` whose text says what is wrong; then nothing has changed.
    """

    async def create(self, name: str, content: str) -> None: ...
    async def edit(self, name: str, content: str) -> None: ...
    async def patch(self, name: str, find: str, replace: str, path: str | None, expected_count: int) -> None: ...
    async def delete(self, name: str) -> None: ...
    async def write_file(self, name: str, path: str, content: str) -> None: ...
    async def remove_file(self, name: str, path: str) -> None: ...
