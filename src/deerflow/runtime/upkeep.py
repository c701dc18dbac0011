"""What a process does by itself, now and then: finish deletions that were interrupted, and delete what is too old."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deerflow.runtime.deletion import Deletions
from deerflow.runtime.retention import Retention
from deerflow.runtime.runs.watch import going_on
from deerflow.runtime.waiting import happens_within, tell_of_failure

AGAIN_S = 60.0
"""When what could not be deleted is tried again; threads do not expire by the second either."""
LOOK_S = 3600.0
"""So often at least: the configuration may have changed."""


async def keep_up(deletions: Deletions, retention: Retention, look: asyncio.Event) -> None:
    """Finish and sweep, then wait for a reason to do so again."""
    while True:
        is_done = await going_on(deletions.finish)
        await going_on(retention.sweep)
        seconds = await going_on(retention.until_next)
        await happens_within(look, AGAIN_S if not is_done else max(AGAIN_S, min(LOOK_S, seconds or LOOK_S)))
        look.clear()


@asynccontextmanager
async def keeping_up(deletions: Deletions, retention: Retention) -> AsyncIterator[None]:
    """Do so in the background."""
    task = asyncio.create_task(keep_up(deletions, retention, asyncio.Event()), name="upkeep")
    task.add_done_callback(tell_of_failure)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await deletions.aclose()
