"""Timeline of runs: read-only access to requests and event logs."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from functools import partial

from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.identity import Principal
from deerflow.domain.runs import EventName, RunRecord, RunRequest
from deerflow.domain.usage import PrefixCacheUsage
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.events import LoggedEvent
from deerflow.persistence.queries.runs import find_runs_by_prefix, list_latest_runs, read_requests, read_timed_events
from deerflow.runtime.runs.job import deserialize_request
from deerflow.runtime.runs.records import add_prefix

PAGE = 1000
SHOWN = 5
USAGE_EVENTS: Sequence[EventName] = ("usage",)


class Timeline:
    """Reader of event logs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(self, who: Principal, limit: int) -> Sequence[RunRecord]:
        """Return the runs of all threads, newest first."""
        return await self._database.read(partial(list_latest_runs, owner=who.user_id, limit=limit))

    async def find(self, who: Principal, beginning: str) -> RunRecord:
        """Return the run whose id starts with a prefix.

        Raises:
            NotFound: No run matches.
            InvalidRequest: Several runs match.
        """
        query = partial(find_runs_by_prefix, owner=who.user_id, beginning=beginning, limit=SHOWN)
        found = await self._database.read(query)
        if not found:
            raise NotFound(f"no run {beginning!r}")
        if len(found) > 1:
            several = ", ".join(run.run_id for run in found)
            raise InvalidRequest(f"several runs begin with {beginning!r}: {several}; write more of the one you mean")
        return found[0]

    async def requests(self, who: Principal, runs: Sequence[RunRecord]) -> Mapping[str, RunRequest]:
        """Return the requests of runs by run id."""
        query = partial(read_requests, run_ids=[run.run_id for run in runs], owner=who.user_id)
        return {run_id: deserialize_request(stored) for run_id, stored in (await self._database.read(query)).items()}

    async def page(
        self, run: RunRecord, after: int, limit: int, names: Collection[EventName] = ()
    ) -> Sequence[LoggedEvent]:
        """Return at most `limit` events of a run after `after`; only those with one of `names`, if given."""
        query = partial(read_timed_events, run_id=run.run_id, after=after, limit=limit, names=names)
        return await self._database.read(query)

    async def events(self, run: RunRecord, names: Collection[EventName] = ()) -> AsyncIterator[LoggedEvent]:
        """Yield the events of a run; only those with one of `names`, if given."""
        after = 0
        while page := await self.page(run, after, PAGE, names):
            for logged in page:
                yield logged
            after = page[-1].event.seq

    async def prefix_cache(self, run: RunRecord) -> PrefixCacheUsage:
        """Return the prefixes of the requests of a run."""
        sums = PrefixCacheUsage()
        async for logged in self.events(run, USAGE_EVENTS):
            sums = add_prefix(sums, logged.event)
        return sums
