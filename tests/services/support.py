"""Runs that are interrupted, for tests of services."""

from pathlib import Path

from sqlalchemy import delete

from deerflow.domain.runs import RunRecord
from deerflow.harness import Harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.tables import run_events
from deerflow.runtime.runs.job import HANDED_OVER


async def wait_for_text(harness: Harness, run: RunRecord, text: str) -> None:
    """Wait until the run has streamed a text."""
    async for group in harness.runs.listen(run):
        if any(event.event == "messages" and text.encode() in event.data for event in group):
            return


async def simulate_crash(place: Path | str) -> None:
    """Remove the event by which the last process handed its run over, as if it had died."""
    handover = delete(run_events).where(run_events.c.data == HANDED_OVER)
    async with open_database(place) as database:
        assert await database.write(lambda connection: connection.execute(handover).rowcount) == 1
