"""The workshop as an agent uses it in one run: only its user's skills, always in its own name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deerflow.domain.budget import Budget
from deerflow.skills.store import Author

if TYPE_CHECKING:
    from deerflow.skills.workshop import SkillWorkshop


@dataclass(frozen=True, slots=True)
class RunSkillEditor:
    """Changes the custom skills of the owner of a run."""

    open_workshop: Callable[[], "SkillWorkshop"]
    """Loaded with the first change: few runs make one."""
    owner: str
    thread_id: str
    budget: Budget | None = None

    @property
    def _author(self) -> Author:
        return Author("agent", self.thread_id, self.budget)

    async def create(self, name: str, content: str) -> None:
        await self.open_workshop().create(self.owner, content, self._author, name)

    async def edit(self, name: str, content: str) -> None:
        await self.open_workshop().edit(self.owner, name, content, self._author)

    async def patch(self, name: str, find: str, replace: str, path: str | None, expected_count: int) -> None:
        await self.open_workshop().patch(
            self.owner, name, find, replace, self._author, path=path, expected_count=expected_count
        )

    async def delete(self, name: str) -> None:
        await self.open_workshop().delete(self.owner, name, self._author)

    async def write_file(self, name: str, path: str, content: str) -> None:
        await self.open_workshop().write_file(self.owner, name, path, content, self._author)

    async def remove_file(self, name: str, path: str) -> None:
        await self.open_workshop().remove_file(self.owner, name, path, self._author)
