"""What happened in runs, and when."""

from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial

from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.events import EventName
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord
from deerflow.persistence.database import Database
from deerflow.persistence.events import LoggedEvent
from deerflow.persistence.timeline import latest_runs, read_timed_events, runs_called

PAGE = 1000
SHOWN = 5


class Timeline:
    """Reads the log of runs; changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(self, who: Principal, limit: int) -> Sequence[RunRecord]:
        """The runs of all threads, newest first."""
        return await self._database.read(partial(latest_runs, owner=who.user_id, limit=limit))

    async def find(self, who: Principal, beginning: str) -> RunRecord:
        """The run whose id begins so.

        Raises:
            NotFound: There is none.
            InvalidRequest: There are several.
        """
        query = partial(runs_called, owner=who.user_id, beginning=beginning, limit=SHOWN)
        found = await self._database.read(query)
        if not found:
            raise NotFound(f"no run {beginning!r}")
        if len(found) > 1:
            several = ", ".join(run.run_id for run in found)
            raise InvalidRequest(f"several runs begin with {beginning!r}: {several}; write more of the one you mean")
        return found[0]

    async def page(
        self, run: RunRecord, after: int, limit: int, names: Collection[EventName] = ()
    ) -> Sequence[LoggedEvent]:
        """At most `limit` events of a run after the event `after`; only those called one of `names`, if any."""
        query = partial(read_timed_events, run_id=run.run_id, after=after, limit=limit, names=names)
        return await self._database.read(query)

    async def events(self, run: RunRecord) -> AsyncIterator[LoggedEvent]:
        """All events of a run so far."""
        after = 0
        while page := await self.page(run, after, PAGE):
            for logged in page:
                yield logged
            after = page[-1].event.seq
