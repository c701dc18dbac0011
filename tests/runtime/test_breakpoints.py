"""Runs that are to stop at a step, and whose process dies just there."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, update

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import NodeNames, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.tables import run_events, runs
from deerflow.testing import Answer, ScriptedModel, calling
from tests.runtime.support import LOOK_TOOL


def open_test_harness(home: Path, *answers: Answer | str) -> AbstractAsyncContextManager[Harness]:
    source = open_source(directory=home, environment={}, overrides={"tools": [LOOK_TOOL]})
    return open_harness(source, ScriptedModel.saying(*answers))


async def finish(harness: Harness, request: RunRequest) -> RunRecord:
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def simulate_crash_before_end(place: Path | str) -> None:
    """Change the database as if the process had died before it recorded the end of the run."""

    def change(connection: Connection) -> int:
        connection.execute(update(runs).values(status=RunStatus.RUNNING, process="gone"))
        return connection.execute(delete(run_events).where(run_events.c.event == "end")).rowcount

    async with open_database(place) as database:
        assert await database.write(change) == 1


@pytest.mark.parametrize(
    ("before", "after", "answers"),
    [
        ((), ("model",), (calling("look"),)),
        ((), ("tools",), (calling("look"),)),
        ((), "*", (calling("look"),)),
        (("tools",), (), (calling("look"),)),
        (("model",), (), ()),
        ("*", (), ()),
    ],
)
async def test_a_run_whose_process_dies_at_a_breakpoint_has_stopped_there(
    tmp_path: Path, database_location: Path | str, before: NodeNames, after: NodeNames, answers: tuple[Answer, ...]
) -> None:
    request = RunRequest(
        "t", [{"type": "human", "content": "Look"}], interrupt_before=before, interrupt_after=after, recursion_limit=50
    )
    async with asyncio.timeout(30):
        async with open_test_harness(tmp_path, *answers) as harness:
            run = await finish(harness, request)
            assert run.status is RunStatus.INTERRUPTED
            steps = (await harness.threads.state("t", LOCAL_USER)).next
        await simulate_crash_before_end(database_location)
        async with open_test_harness(tmp_path) as harness:
            again = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert (again.status, again.attempt, again.error) == (RunStatus.INTERRUPTED, 2, None)
            assert (await harness.threads.state("t", LOCAL_USER)).next == steps
        async with open_test_harness(tmp_path, *(() if answers else (calling("look"),)), "Done.") as harness:
            assert (await finish(harness, RunRequest("t", goes_on=True))).status is RunStatus.SUCCESS
