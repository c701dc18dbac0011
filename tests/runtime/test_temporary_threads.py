"""Temporary threads: not listed, searched or remembered, and deleted without a trace."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select

from deerflow.config.source import ConfigSource
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.domain.threads import TEMPORARY, ThreadFilter
from deerflow.harness import Harness
from deerflow.persistence.tables import memory_pending, search_messages
from deerflow.testing import ScriptedModel
from tests.canary import files_with, tables_with
from tests.support import OpenHarness

CANARY = "canary-4711"


async def talk(harness: Harness, text: str, *, temporary: bool) -> None:
    await harness.threads.create(LOCAL_USER, "t", {TEMPORARY: temporary}, may_exist=False)
    request = RunRequest("t", [{"type": "human", "content": text}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(20):
        await harness.runs.join("t", run.run_id, LOCAL_USER)


def count_rows(connection: Connection) -> tuple[int, int]:
    tables = (search_messages, memory_pending)
    found, pending = (connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables)
    return found, pending


async def test_a_temporary_thread_is_neither_listed_nor_searched_nor_remembered(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("I like herons too.")) as harness:
        await talk(harness, "I like herons very much.", temporary=True)
        assert await harness.threads.search(LOCAL_USER, 10, 0) == []
        assert await harness.threads.count(LOCAL_USER, ThreadFilter()) == 0
        named = await harness.threads.search(LOCAL_USER, 10, 0, ThreadFilter({TEMPORARY: True}))
        assert [thread.thread_id for thread in named] == ["t"]
        assert (await harness.threads.get("t", LOCAL_USER)).status == "idle"
        assert await harness.core.database.read(count_rows) == (0, 0)
        assert (await harness.resources.search.search(LOCAL_USER, "herons", 10)).hits == []


async def test_a_copy_of_a_temporary_thread_is_temporary(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness:
        await talk(harness, "Hi.", temporary=True)
        copy = await harness.threads.copy("t", LOCAL_USER)
        assert copy.metadata[TEMPORARY] is True and await harness.threads.search(LOCAL_USER, 10, 0) == []


@pytest.mark.slow
async def test_a_temporary_thread_expires_and_leaves_no_bytes(
    database_location: Path | str, harness_saying: OpenHarness, source: ConfigSource
) -> None:
    async with harness_saying(ScriptedModel.saying(f"{CANARY} " * 20)) as harness:
        await talk(harness, CANARY, temporary=True)
        thread = await harness.threads.get("t", LOCAL_USER)
        await harness.files_of(thread).write("/mnt/user-data/outputs/a.txt", CANARY.encode())
        assert files_with(CANARY, source.current.home)
        now = datetime.now(UTC)
        early, late = (replace(harness.retention, clock=partial(now.__add__, timedelta(hours=h))) for h in (23, 25))
        assert await early.sweep() == 0
        assert 0 < (await early.until_next() or 0) <= 3600
        assert await late.sweep() == 1
        assert files_with(CANARY, source.current.home) == []
        assert isinstance(database_location, Path) or tables_with(CANARY, database_location) == []


async def test_other_threads_are_kept_and_remembered(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Noted.")) as harness:
        await talk(harness, "I like herons very much.", temporary=False)
        assert [thread.thread_id for thread in await harness.threads.search(LOCAL_USER, 10, 0)] == ["t"]
        late = replace(harness.retention, clock=lambda: datetime.now(UTC) + timedelta(days=300))
        assert await late.sweep() == 0 and await late.until_next() is None
        assert (await harness.core.database.read(count_rows))[0] > 0
