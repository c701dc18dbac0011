"""Deletion that is interrupted, and threads that are too old."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.harness import open_harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.queries.deletions import begin_deletion, delete_events, list_unfinished_deletions
from deerflow.persistence.queries.threads import find_thread, insert_thread
from deerflow.runtime.threads.deletion import Deletions, ThreadResources
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.canary import files_with, tables_with
from tests.runtime.support import build_request, finish_run
from tests.support import OpenHarness
from tests.uploads.support import upload_file

CANARY = "canary-0815"


@pytest.mark.parametrize("how_far", ["written down", "half its events gone"])
async def test_an_interrupted_deletion_is_finished_by_the_next_process(
    database_location: Path | str, harness_saying: OpenHarness, source: ConfigSource, how_far: str
) -> None:
    async with harness_saying(ScriptedModel.saying(f"{CANARY} " * 50)) as harness:
        await finish_run(harness, build_request("one"))
        thread = await harness.threads.get("t", LOCAL_USER)
        await harness.files_of(thread).write("/mnt/user-data/outputs/a.txt", CANARY.encode())
    async with open_database(database_location) as database:
        mark = await database.write(partial(begin_deletion, thread_id="t", owner="local", process="dead"))
        if how_far != "written down":
            await database.write(partial(delete_events, mark=mark))
    assert files_with(CANARY, source.current.home)
    assert isinstance(database_location, Path) or tables_with(CANARY, database_location)

    async with harness_saying(ScriptedModel.saying("Fresh.")) as harness, asyncio.timeout(20):
        assert await harness.deletions.finish()
        assert files_with(CANARY, source.current.home) == []
        assert isinstance(database_location, Path) or tables_with(CANARY, database_location) == []
        await finish_run(harness, build_request("two"))  # its name is free again
        assert (await harness.threads.get("t", LOCAL_USER)).title == "two"


async def test_a_thread_being_deleted_is_hidden_and_its_id_is_reserved(
    database_location: Path | str, harness_saying: OpenHarness
) -> None:
    async with harness_saying(ScriptedModel.saying("One.")) as harness:
        run, _ = await finish_run(harness, build_request("one"))
        async with open_database(database_location) as database:
            await database.write(partial(begin_deletion, thread_id="t", owner="local", process="alive elsewhere"))
        for attempt in (
            harness.threads.get("t", LOCAL_USER),
            harness.threads.state("t", LOCAL_USER),
            harness.threads.delete("t", LOCAL_USER),
            harness.runs.get("t", run.run_id, LOCAL_USER),
        ):
            with pytest.raises(NotFound):
                await attempt
        with pytest.raises(Conflict, match="being deleted"):
            await harness.runs.create_or_reject(build_request("two"), LOCAL_USER)
        assert await harness.threads.search(LOCAL_USER, 10, 0) == []


async def test_failed_deletions_are_retried(database_location: Path | str, harness_saying: OpenHarness) -> None:
    stubborn = [True]

    async def forget(thread_id: str, user_id: str) -> None:
        if stubborn:
            stubborn.clear()
            raise OSError("the disk is away")

    async def scrub() -> bool:
        return True

    async with harness_saying(ScriptedModel.saying()) as harness:
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
    async with open_database(database_location) as database:  # alone: a server would take on what is left
        resources = ThreadResources([forget], scrub)
        deletions = Deletions(database, resources, fail_stop, AlwaysAlive(), "us")
        assert not await deletions.delete("t", LOCAL_USER)
        assert [mark.thread_id for mark in await database.read(list_unfinished_deletions)] == ["t"]
        assert await deletions.finish()
        assert await database.read(list_unfinished_deletions) == []


async def test_a_thread_is_not_deleted_twice_when_its_id_is_used_again(
    database_location: Path | str, harness_saying: OpenHarness
) -> None:
    forgotten: list[str] = []
    is_free = False

    async def forget(thread_id: str, user_id: str) -> None:
        forgotten.append(thread_id)

    async def scrub() -> bool:
        return is_free

    async with harness_saying(ScriptedModel.saying()) as harness:
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
    async with open_database(database_location) as database:
        deletions = Deletions(database, ThreadResources([forget], scrub), fail_stop, AlwaysAlive(), "us")
        assert not await deletions.delete("t", LOCAL_USER)
        await database.write(partial(insert_thread, thread_id="t", owner="local", metadata={}))
        assert not await deletions.finish()
        is_free = True
        assert await deletions.finish()
        assert await database.read(list_unfinished_deletions) == []
        assert await database.read(partial(find_thread, thread_id="t", owner="local"))
        assert forgotten.count("t") == 1


class AlwaysAlive:
    lease_s = 30.0

    async def find_dead(self, processes: object) -> list[str]:
        return []


async def fail_stop(run: object, who: object) -> None:
    raise AssertionError("nothing was to be stopped")


async def test_inactive_threads_are_deleted_after_the_retention_period(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides={"retention": {"days": 30}})
    model = ScriptedModel.saying("One.", Stall(Answer("Working")))
    async with open_harness(source, model) as harness, asyncio.timeout(20):
        await finish_run(harness, build_request("one"))
        await harness.threads.create(LOCAL_USER, "pinned", {"pinned": True}, may_exist=False)
        await harness.threads.create(Principal("other"), "others", {"pinned": False}, may_exist=False)
        await harness.runs.create_or_reject(build_request("two", "busy"), LOCAL_USER)
        await model.waiting.wait()
        now = datetime.now(UTC)

        early, late = (replace(harness.retention, clock=lambda d=days: now + timedelta(days=d)) for days in (29, 31))
        assert await early.sweep() == 0
        assert 0.9 < (await early.until_next() or 0) / 86400 < 1.1
        assert await late.sweep() == 2
        left = await harness.threads.search(LOCAL_USER, 10, 0)
        assert {thread.thread_id for thread in left} == {"busy", "pinned"}
        assert await harness.threads.search(Principal("other"), 10, 0) == []


async def test_threads_are_kept_forever_by_default(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One.")) as harness:
        await finish_run(harness, build_request("one"))
        future = replace(harness.retention, clock=lambda: datetime.now(UTC) + timedelta(days=10_000))
        assert await future.sweep() == 0 and await future.until_next() is None


@pytest.mark.slow
async def test_a_state_update_during_deletion_leaves_nothing(harness_saying: OpenHarness, source: ConfigSource) -> None:
    async with harness_saying(ScriptedModel.saying(*["One."] * 20)) as harness, asyncio.timeout(30):
        for number in range(10):
            name = f"t{number}"
            await finish_run(harness, build_request("one", name))
            change = harness.threads.update_state(
                name, LOCAL_USER, {"messages": [{"type": "human", "content": CANARY}]}
            )
            await asyncio.gather(change, harness.threads.delete(name, LOCAL_USER), return_exceptions=True)
        assert files_with(CANARY, source.current.home) == []


async def test_a_file_added_during_deletion_is_deleted_too(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        thread = await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
        await harness.threads.delete("t", LOCAL_USER)
        await upload_file(harness, thread, "late.txt", b"late")
        with pytest.raises(NotFound):
            await harness.threads.confirm("t", LOCAL_USER)
        assert files_with("late.txt", harness.core.source.current.home) == []
