"""What learning from a conversation may take: what its last run has left, kept with what is yet to be learned."""

from dataclasses import dataclass, replace
from functools import partial

from deerflow.domain.budget import BudgetSpent, SpendingLimit
from deerflow.domain.learning import Lesson, Payer
from deerflow.persistence.database import Database
from deerflow.persistence.memory_pending import note_payment
from deerflow.runtime.pricing import Prices
from deerflow.runtime.runs.budget import BookedBudget, Entry, Purse, left_of


@dataclass(frozen=True, slots=True)
class LessonBook:
    """The row of a conversation that is being learned from."""

    database: Database
    lesson: Lesson
    payer: Payer
    limit: SpendingLimit

    async def set_aside(self, entry: Entry) -> None:
        payer = replace(self.payer, limit=left_of(self.limit, entry.gone))
        if not await self.database.write(partial(note_payment, lesson=replace(self.lesson, payer=payer))):
            raise BudgetSpent("another run pays for it by now, or somebody else is learning from it")

    def settle(self, entry: Entry) -> None:
        """What is left in the end is kept with whatever becomes of the lesson."""


def lesson_budget(database: Database, prices: Prices, lesson: Lesson) -> BookedBudget | None:
    """What a lesson may take; None: as much as it likes."""
    if lesson.payer is None or lesson.payer.limit is None:
        return None
    book = LessonBook(database, lesson, lesson.payer, lesson.payer.limit)
    return BookedBudget(lesson.payer.limit, Purse(), prices, book)
