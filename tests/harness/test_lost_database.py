"""A database that is lost, replaced or moved away is noticed, and nothing is written elsewhere."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import orjson
import psycopg
import pytest
from sqlalchemy import make_url

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import ConfigError, StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import MultitaskStrategy, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.support import browse

HI = [{"type": "human", "content": "Hi"}]
LIMIT_S = 60


def database(source: ConfigSource) -> Path:
    return source.current.home / "data" / "deerflow.db"


def checkpoints(source: ConfigSource) -> Path:
    return database(source).with_name("checkpoints.db")


async def say(harness: Harness, thread_id: str = "t") -> RunStatus:
    request = RunRequest(thread_id, HI, multitask_strategy=MultitaskStrategy.ENQUEUE)
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(LIMIT_S):
        return (await harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)).status


async def use_once(source: ConfigSource) -> None:
    async with open_harness(source, ScriptedModel.saying("Hello.")) as harness:
        assert await say(harness) is RunStatus.SUCCESS


def change_id(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE installation SET database_id = 'another'")
        connection.commit()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def empty_tables(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE something (x)")


@pytest.mark.parametrize("locate", [database, checkpoints])
@pytest.mark.parametrize("lose", [Path.unlink, empty, empty_tables, change_id])
async def test_a_server_refuses_to_start_without_its_own_database_and_starts_with_it_again(
    source: ConfigSource, locate: Callable[[ConfigSource], Path], lose: Callable[[Path], None]
) -> None:
    await use_once(source)
    file = locate(source)
    kept = shutil.copy2(file, file.with_suffix(".kept"))
    lose(file)
    before = sorted(file.parent.iterdir()), file.read_bytes() if file.exists() else None
    with pytest.raises(ConfigError, match=rf"{file.name}.* restore|{file.name}.*Restore"):
        async with open_harness(source, ScriptedModel.saying("Hello.")):
            pass
    if locate is database and lose is not empty_tables:
        assert (sorted(file.parent.iterdir()), file.read_bytes() if file.exists() else None) == before
    for suffix in ("-wal", "-shm"):
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)
    shutil.copy2(kept, file)
    async with open_harness(source, ScriptedModel.saying("Hello again.")) as harness:
        assert len(await harness.runs.list_by_thread("t", LOCAL_USER)) == 1
        assert await say(harness) is RunStatus.SUCCESS


async def test_deleting_the_id_file_accepts_a_new_database(source: ConfigSource) -> None:
    await use_once(source)
    for file in (database(source), checkpoints(source)):
        file.unlink()
        file.with_name(f"{file.name}.id").unlink()
    async with open_harness(source, ScriptedModel.saying("Hello.")) as harness:
        assert await harness.runs.list_by_thread("t", LOCAL_USER) == []


async def test_a_database_without_id_file_gets_one(source: ConfigSource) -> None:
    await use_once(source)
    marks = [file.with_name(f"{file.name}.id") for file in (database(source), checkpoints(source))]
    texts = [mark.read_text() for mark in marks]
    for mark in marks:
        mark.unlink()
    await use_once(source)
    assert [mark.read_text() for mark in marks] == texts and texts[0] == texts[1]


async def test_an_emptied_or_replaced_postgresql_database_is_refused(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "config.yaml").write_text(f"database:\n  url: {postgres_url}\n")
    source = open_source(directory=tmp_path, environment={})
    await use_once(source)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE installation SET database_id = 'another'")
        with pytest.raises(ConfigError, match="is another one"):
            async with open_harness(source, ScriptedModel.saying("Hello.")):
                pass
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        with pytest.raises(ConfigError, match="is missing, empty or too old"):
            async with open_harness(source, ScriptedModel.saying("Hello.")):
                pass
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def move_away(file: Path) -> Callable[[], object]:
    elsewhere = file.with_suffix(".elsewhere")
    file.rename(elsewhere)
    return lambda: elsewhere.rename(file)


def replace_by_copy(file: Path) -> Callable[[], object]:
    put_back = move_away(file)
    shutil.copy2(file.with_suffix(".elsewhere"), file)
    return put_back


def move_folder(file: Path) -> Callable[[], object]:
    elsewhere = file.parent.with_name("elsewhere")
    file.parent.rename(elsewhere)
    return lambda: elsewhere.rename(file.parent)


@pytest.mark.parametrize("locate", [database, checkpoints])
@pytest.mark.parametrize("take", [move_away, replace_by_copy, move_folder])
async def test_nothing_is_acknowledged_while_the_database_is_moved_away(
    source: ConfigSource, locate: Callable[[ConfigSource], Path], take: Callable[[Path], Callable[[], object]]
) -> None:
    model = ScriptedModel.saying("Hello.", "Hello again.", "And again.")
    async with open_harness(source, model) as harness, browse(harness) as client:
        assert await say(harness) is RunStatus.SUCCESS
        put_back = take(locate(source))
        ready = await client.get("/ready")
        assert ready.status_code == 503 and "moved" in ready.json()["detail"]
        for thread_id in ("t", "another"):
            with pytest.raises(StorageUnavailable, match="moved"):
                await say(harness, thread_id)
        update = {"values": {"messages": [{"type": "human", "content": "Lost"}]}}
        answer = await client.post("/api/threads/t/state", json=update)
        assert answer.status_code == 503 and answer.json()["error"] == "StorageUnavailable"
        if locate is database or take is move_folder:  # a thread without messages has no checkpoints
            answer = await client.post("/api/threads", json={"thread_id": "new"})
            assert answer.status_code == 503 and answer.json()["error"] == "StorageUnavailable"
        put_back()
        assert (await client.get("/ready")).status_code == 200
        assert await say(harness) is RunStatus.SUCCESS
        assert (await client.get("/api/threads/new")).status_code == 404
        assert await list_contents(harness) == ["Hi", "Hello.", "Hi", "Hello again."]


async def list_contents(harness: Harness) -> list[str]:
    values = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return [message["content"] for message in values["messages"]]


@pytest.mark.parametrize("locate", [database, checkpoints])
@pytest.mark.parametrize("take", [move_away, replace_by_copy])
async def test_a_run_whose_database_is_moved_away_waits_or_fails_and_loses_nothing(
    source: ConfigSource, locate: Callable[[ConfigSource], Path], take: Callable[[Path], Callable[[], object]]
) -> None:
    model = ScriptedModel.saying("Hello.", Stall(Answer("Half and half.")), "Half and half.", "And on.")
    async with open_harness(source, model) as harness, asyncio.timeout(LIMIT_S):
        assert await say(harness) is RunStatus.SUCCESS
        run = await harness.runs.create_or_reject(RunRequest("t", HI), LOCAL_USER)
        await model.waiting.wait()
        put_back = take(locate(source))
        model.release()
        with pytest.raises(StorageUnavailable):
            await say(harness, "another")
        assert not (await harness.runs.get("t", run.run_id, LOCAL_USER)).status.is_final
        put_back()
        ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
        # A step whose state could not be stored has failed; the end is recorded when that is possible again.
        has_failed = locate is checkpoints and ended.status is RunStatus.ERROR and "moved" in (ended.error or "")
        assert has_failed or ended.status is RunStatus.SUCCESS
        numbers = [event.seq async for group in harness.runs.listen(run) for event in group]
        assert numbers == list(range(1, len(numbers) + 1))
        assert await list_contents(harness) == ["Hi", "Hello.", "Hi", "Half and half."]
        assert await say(harness) is RunStatus.SUCCESS


def change_database_id(url: str) -> Callable[[], object]:
    def write(old: str, new: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE installation SET database_id = replace(database_id, %s, %s)", (old, new))

    write("-", "+")
    return lambda: write("+", "-")


def hide_tables(url: str) -> Callable[[], object]:
    def rename(old: str, new: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER SCHEMA {old} RENAME TO {new}")

    rename("public", "elsewhere")
    return lambda: rename("elsewhere", "public")


def rename_database(url: str) -> Callable[[], object]:
    """Put an empty database in the place of another, which ends all connections."""
    name = make_url(url).database

    def execute(*statements: str) -> None:
        with psycopg.connect(make_url(url).set(database="postgres").render_as_string(), autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            for statement in statements:
                connection.execute(statement)

    execute(f'ALTER DATABASE "{name}" RENAME TO "{name}_away"', f'CREATE DATABASE "{name}"')
    return lambda: execute(f'DROP DATABASE "{name}"', f'ALTER DATABASE "{name}_away" RENAME TO "{name}"')


@pytest.mark.parametrize("take", [change_database_id, hide_tables, rename_database])
async def test_nothing_is_acknowledged_while_another_postgresql_database_is_in_place(
    tmp_path: Path, postgres_url: str, take: Callable[[str], Callable[[], object]]
) -> None:
    (tmp_path / "config.yaml").write_text(f"database:\n  url: {postgres_url}\n")
    source = open_source(directory=tmp_path, environment={})
    model = ScriptedModel.saying("Hello.", "Hello again.", "And again.")
    async with open_harness(source, model) as harness, browse(harness) as client:
        assert await say(harness) is RunStatus.SUCCESS
        put_back = await asyncio.to_thread(take, postgres_url)
        ready = await client.get("/ready")
        assert ready.status_code == 503 and "emptied or replaced" in ready.json()["detail"]
        for thread_id in ("t", "another"):
            with pytest.raises(StorageUnavailable):
                await say(harness, thread_id)
        update = {"values": {"messages": [{"type": "human", "content": "Lost"}]}}
        for answer in (
            await client.post("/api/threads", json={"thread_id": "new"}),
            await client.post("/api/threads/t/state", json=update),
        ):
            assert answer.status_code == 503 and answer.json()["error"] == "StorageUnavailable"
        await asyncio.to_thread(put_back)
        assert (await client.get("/ready")).status_code == 200
        assert await say(harness) is RunStatus.SUCCESS
        assert (await client.get("/api/threads/new")).status_code == 404
        assert await list_contents(harness) == ["Hi", "Hello.", "Hi", "Hello again."]
