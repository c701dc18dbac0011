"""What people think of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from deerflow.domain.feedback import Feedback, FeedbackStats, Rating
from deerflow.domain.ids import new_id
from deerflow.domain.principal import Principal
from deerflow.persistence import feedback as rows
from deerflow.persistence.database import Database


@dataclass(frozen=True, slots=True)
class Feedbacks:
    """Every method sees only what belongs to `who`, and raises `NotFound` for a run that does not."""

    database: Database

    async def put(
        self,
        thread_id: str,
        run_id: str,
        who: Principal,
        rating: Rating,
        comment: str | None = None,
        message_id: str | None = None,
        *,
        may_exist: bool = True,
    ) -> Feedback:
        """Say what one thinks of a run, or of one of its messages; said before, it is changed.

        Raises:
            Conflict: it was said before, and may not have been.
        """
        now = datetime.now(UTC)
        given = Feedback(new_id(), who.user_id, thread_id, run_id, message_id, rating, comment, now, now)
        return await self.database.write(partial(rows.put_feedback, given=given, may_exist=may_exist))

    async def list(self, thread_id: str, run_id: str, who: Principal) -> Sequence[Feedback]:
        """What was said of a run, oldest first."""
        query = partial(rows.list_feedback, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        return await self.database.read(query)

    async def stats(self, thread_id: str, run_id: str, who: Principal) -> FeedbackStats:
        """How many liked a run, and how many did not."""
        query = partial(rows.feedback_stats, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        return await self.database.read(query)

    async def delete(self, thread_id: str, run_id: str, who: Principal, feedback_id: str | None = None) -> None:
        """Take back what was said of a run: one thing, or all."""
        change = partial(rows.delete_feedback, thread_id=thread_id, run_id=run_id, owner=who.user_id)
        await self.database.write(partial(change, feedback_id=feedback_id))
