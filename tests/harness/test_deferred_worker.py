"""The worker of runs, which is imported with the first of them."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel
from tests.runtime.support import NO_TOOLBOX, build_request, finish_run
from tests.support import browse

LIMIT_S = 30.0


@asynccontextmanager
async def run_waiting_for_its_worker(harness: Harness) -> AsyncIterator[tuple[RunRecord, Event]]:
    """Yield a run whose worker is imported in a thread that waits for the event."""
    gate, loop = Event(), asyncio.get_running_loop()
    run = await harness.runs.create_or_reject(build_request("Hi"), LOCAL_USER)
    # Its task has not begun: what it hands to a thread comes after this.
    threads = ThreadPoolExecutor(1)
    threads.submit(gate.wait, LIMIT_S)
    loop.set_default_executor(threads)
    try:
        await asyncio.sleep(0)
        yield run, gate
    finally:
        gate.set()


async def test_a_run_that_is_cancelled_before_its_worker_is_imported_ends_as_interrupted(tmp_path: Path) -> None:
    imported = []
    source = open_source(directory=tmp_path, environment={}, overrides=NO_TOOLBOX)
    async with (
        open_harness(source, ScriptedModel.saying("Hello."), on_import=lambda: imported.append(True)) as harness,
        run_waiting_for_its_worker(harness) as (run, gate),
    ):
        cancelling = asyncio.create_task(harness.runs.cancel(run.thread_id, run.run_id, LOCAL_USER))
        done, _ = await asyncio.wait({cancelling}, timeout=0.2)
        assert not done and not imported
        gate.set()
        async with asyncio.timeout(LIMIT_S):
            await cancelling

        ended = await harness.runs.get(run.thread_id, run.run_id, LOCAL_USER)
        following, _ = await finish_run(harness, build_request("Hi again"))

    assert ended.status is RunStatus.INTERRUPTED
    assert following.status is RunStatus.SUCCESS
    assert imported == [True]


async def test_a_run_whose_worker_is_not_imported_at_the_shutdown_goes_on_at_the_next_start(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides=NO_TOOLBOX)
    async with (
        open_harness(source, ScriptedModel.saying("Never asked.")) as harness,
        run_waiting_for_its_worker(harness) as (run, gate),
    ):
        closing = asyncio.create_task(harness.runs.aclose())
        done, _ = await asyncio.wait({closing}, timeout=0.2)
        assert not done
        gate.set()
        async with asyncio.timeout(LIMIT_S):
            await closing
        left = await harness.runs.get(run.thread_id, run.run_id, LOCAL_USER)
    async with open_harness(source, ScriptedModel.saying("Hello.")) as harness, asyncio.timeout(LIMIT_S):
        ended = await harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)

    assert left.status is RunStatus.RUNNING
    assert ended.status is RunStatus.SUCCESS


async def test_runs_that_begin_together_share_one_worker(tmp_path: Path) -> None:
    imported = []
    source = open_source(directory=tmp_path, environment={}, overrides=NO_TOOLBOX)
    model = ScriptedModel.saying("One.", "Two.", "Three.")
    async with open_harness(source, model, on_import=lambda: imported.append(True)) as harness:
        assert not imported
        ended = await asyncio.gather(*(finish_run(harness, build_request("Hi", f"t{number}")) for number in range(3)))

    assert [run.status for run, _ in ended] == [RunStatus.SUCCESS] * 3
    assert imported == [True]


async def test_the_worker_is_imported_when_the_page_asks_for_the_features(tmp_path: Path) -> None:
    imported = asyncio.Event()
    source = open_source(directory=tmp_path, environment={}, overrides=NO_TOOLBOX)
    async with open_harness(source, ScriptedModel.saying(), on_import=imported.set) as harness, browse(harness) as http:
        for path in ("/health", "/api/models", "/api/threads/search"):
            await http.request("POST" if path.endswith("search") else "GET", path, json={})
        assert not imported.is_set()
        assert (await http.get("/api/features")).status_code == 200
        async with asyncio.timeout(LIMIT_S):
            await imported.wait()
