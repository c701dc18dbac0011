"""PostgreSQL: the same as SQLite, and what several processes on it need."""

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Barrier, Event

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from sqlalchemy import Connection, text

from deerflow.config.imports import require_extra
from deerflow.domain.errors import ConfigError, RunLost, StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRecord, RunRequest, RunStatus
from deerflow.persistence.checkpoints import WRITER_KEY, CheckpointWriter
from deerflow.persistence.checkpoints.sqlite import open_checkpointer
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import (
    STALE_LEASE_S,
    LeaseLiveness,
    hold_lease,
    read_leases,
    renew_lease,
)
from deerflow.persistence.engine.postgres import open_postgres
from deerflow.persistence.engine.schema import SCHEMA_VERSION, load_full_metadata, read_version
from deerflow.persistence.queries.events import LoggedEvent, insert_events, read_events
from deerflow.persistence.queries.runs import StoredRequest, advance_run, reclaim_run
from deerflow.persistence.queries.threads import insert_thread, search_threads
from deerflow.persistence.queries.transactions import accept_run
from deerflow.runtime.runs.request import create_run_record
from tests.servers import PostgresServer


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    async with open_database(postgres_url) as opened:
        yield opened


def add_thread(name: str):
    return lambda connection: insert_thread(connection, name, "me", {})


async def create_run(database: Database) -> RunRecord:
    run = create_run_record(RunRequest("t"), LOCAL_USER, "process")
    first = LoggedEvent(run.run_id, RunEvent(1, "metadata", b"{}"), run.created_at)
    change = partial(accept_run, run=run, request=StoredRequest({}, ""), first=first, title=None)
    return (await database.write(partial(change, may_create_thread=True))).run


def build_event(run: RunRecord, seq: int) -> LoggedEvent:
    return LoggedEvent(run.run_id, RunEvent(seq, "custom", b"\x00{}"), datetime.now(UTC), run.attempt)


async def list_event_numbers(database: Database, run: RunRecord) -> list[int]:
    read = await database.read(partial(read_events, run_id=run.run_id, after=0, limit=100))
    return [each.seq for each in read]


def test_names_a_missing_extra() -> None:
    with (
        pytest.raises(
            ConfigError, match=r"^database.url: .*no module 'psycopg9'; .* pip install 'deerflow\[postgres\]'"
        ),
        require_extra("postgres", "database.url"),
    ):
        importlib.import_module("psycopg9")


async def test_names_an_unreachable_server_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"database.url: cannot use postgresql://me:\*\*\*@") as problem:
        async with open_database(f"postgresql://me:canary@/name?host={tmp_path}"):
            pass
    assert "canary" not in str(problem.value)


async def test_refuses_a_database_of_a_newer_version(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ConfigError, match=r"has unknown schema version '9999'"):
        async with open_database(postgres_url):
            pass


async def test_servers_that_start_at_once_migrate_once(postgres_server: PostgresServer) -> None:
    async def start(url: str) -> str | None:
        async with open_database(url) as database, open_checkpointer(url):
            return await database.read(read_version)

    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS empty WITH (FORCE)")
        admin.execute("CREATE DATABASE empty")
    async with asyncio.timeout(60):
        assert await asyncio.gather(*(start(postgres_server.url("empty")) for _ in range(4))) == [SCHEMA_VERSION] * 4


async def test_migrations_create_the_declared_tables(database: Database) -> None:
    def compare(connection: Connection) -> list[object]:
        known = load_full_metadata().tables
        ours = {"compare_type": False, "include_name": lambda name, kind, _: kind != "table" or name in known}
        return list(compare_metadata(MigrationContext.configure(connection, opts=ours), load_full_metadata()))

    assert await database.read(compare) == []


async def test_a_failed_write_does_not_affect_others(database: Database) -> None:
    def fail(connection: Connection) -> None:
        insert_thread(connection, "half", "me", {})
        raise ValueError("no")

    results = await asyncio.gather(
        database.write(add_thread("a")), database.write(fail), database.write(add_thread("b")), return_exceptions=True
    )
    found = await database.read(lambda connection: search_threads(connection, "me", 100, 0))
    assert isinstance(results[1], ValueError)
    assert {thread.thread_id for thread in found} == {"a", "b"}


async def test_reconnects_after_the_server_was_unavailable(
    postgres_server: PostgresServer, postgres_url: str, database: Database
) -> None:
    run = await create_run(database)
    await database.append([build_event(run, 2)])
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'deerflow'"
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as admin:
        admin.execute(end)
        with pytest.raises(StorageUnavailable):
            await database.append([build_event(run, 3)])
    assert await database.append([build_event(run, 3)]) == ()
    await database.write(add_thread("a"))
    assert await list_event_numbers(database, run) == [1, 2, 3]


async def test_retries_after_a_deadlock(database: Database) -> None:
    await database.write(add_thread("a"))
    await database.write(add_thread("b"))
    both_hold_one, tried = Barrier(2), list[str]()
    touch = text("UPDATE threads SET title = coalesce(title, '') || 'x' WHERE thread_id = :name")

    def change(connection: Connection, order: str) -> None:
        # Only one of them looks for what holds it up, so that not both give way.
        patience = "10ms" if order == "ab" else "60s"
        connection.execute(text(f"SET LOCAL deadlock_timeout TO '{patience}'"))
        connection.execute(touch, {"name": order[0]})
        tried.append(order)
        if tried.count(order) == 1:
            both_hold_one.wait(10)
        connection.execute(touch, {"name": order[1]})

    async with asyncio.timeout(20):
        await asyncio.gather(*(database.write(partial(change, order=order)) for order in ("ab", "ba")))
    found = await database.read(lambda connection: search_threads(connection, "me", 100, 0))
    assert [thread.title for thread in found] == ["xx", "xx"]
    # A second attempt may meet the other one again, which has not been woken yet.
    assert tried.count("ab") >= 2 and tried.count("ba") == 1


async def test_refuses_events_of_an_old_attempt(database: Database) -> None:
    run = await create_run(database)
    assert await database.append([build_event(run, 2)]) == ()
    claimed = await database.write(partial(reclaim_run, run=run, process="other"))
    assert claimed is not None and claimed.record.attempt == 2
    assert await database.append([build_event(run, 3)]) == {run.run_id}
    with pytest.raises(RunLost):
        await database.write(partial(insert_events, events=[build_event(run, 3)]))
    assert await database.append([build_event(claimed.record, 3)]) == ()
    assert await list_event_numbers(database, run) == [1, 2, 3]


async def test_ignores_events_that_are_written_twice(database: Database) -> None:
    run = await create_run(database)
    assert await database.append([build_event(run, 2)]) == ()
    assert not await database.append([build_event(run, 2), build_event(run, 3)])
    assert await list_event_numbers(database, run) == [1, 2, 3]


@dataclass
class Stopwatch:
    """Clock that moves when a test says so."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@asynccontextmanager
async def watch_leases(database: Database, folder: Path) -> AsyncIterator[tuple[LeaseLiveness, Stopwatch]]:
    """Hold a lease of 30 seconds as process `here`; yield what watches the others, and its clock."""
    clock = Stopwatch()
    async with hold_lease(database, folder, "here", 30, clock) as liveness:
        yield liveness, clock


async def test_a_process_is_alive_until_its_lease_ends(database: Database, tmp_path: Path) -> None:
    async with watch_leases(database, tmp_path) as (liveness, clock):
        await database.write(partial(renew_lease, process="there", seconds=30))
        await database.write(partial(renew_lease, process="gone", seconds=30))
        assert await liveness.find_dead(["there", "gone", "nobody"]) == ["nobody"]
        clock.seconds += 20
        await database.write(partial(renew_lease, process="there", seconds=30))
        assert await liveness.find_dead(["there", "gone"]) == []
        assert await liveness.seconds_until_expiry() == 10
        clock.seconds += 10
        assert await liveness.find_dead(["there", "gone"]) == ["gone"]
        await liveness.remove_process("gone")
        assert await liveness.seconds_until_expiry() == 20
        (tmp_path / "there").touch()  # its lock, which nobody on this machine holds
        assert await liveness.find_dead(["there"]) == ["there"]
    assert set(await database.read(read_leases)) == {"there"}


@pytest.mark.parametrize("jump", [-365 * 86400, -3600, 3600, 365 * 86400])
async def test_a_lease_ends_wherever_the_clock_of_the_database_stands(
    database: Database, tmp_path: Path, jump: int
) -> None:
    async with watch_leases(database, tmp_path) as (liveness, clock):
        for name in ("there", "gone"):  # as written before the clock was set by `-jump`
            await database.write(partial(renew_lease, process=name, seconds=30 + jump))
        assert await liveness.find_dead(["there", "gone"]) == []
        clock.seconds += 15
        await database.write(partial(renew_lease, process="there", seconds=30))
        assert await liveness.find_dead(["there", "gone"]) == []
        assert await liveness.seconds_until_expiry() == 15
        clock.seconds += 15
        assert await liveness.find_dead(["there", "gone"]) == ["gone"]


async def test_leases_of_processes_that_left_no_runs_are_deleted(database: Database, tmp_path: Path) -> None:
    async with watch_leases(database, tmp_path) as (liveness, clock):
        await database.write(partial(renew_lease, process="gone", seconds=30))
        assert await liveness.find_dead([]) == []
        clock.seconds += STALE_LEASE_S + 1
        assert await liveness.find_dead([]) == []
        assert set(await database.read(read_leases)) == {"here"}


async def test_a_run_ends_once(database: Database) -> None:
    run = await create_run(database)
    stale = replace(run, status=RunStatus.PENDING)
    assert run.status is RunStatus.RUNNING
    assert not await database.write(partial(advance_run, run=stale, status=RunStatus.INTERRUPTED))
    assert await database.write(partial(advance_run, run=run, status=RunStatus.SUCCESS))
    assert not await database.write(partial(advance_run, run=run, status=RunStatus.ERROR))


async def write_checkpoint(saver: BaseCheckpointSaver[str], run: RunRecord) -> None:
    """Write a checkpoint and the writes of a step, for an attempt of a run."""
    owner = {WRITER_KEY: CheckpointWriter(run.run_id, run.attempt)}
    config: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": "", **owner}}
    made = await saver.aput(config, empty_checkpoint(), {"source": "loop"}, {})
    at = {"configurable": {**config["configurable"], **made["configurable"]}}
    await saver.aput_writes(at, [("messages", "said")], "task")


async def test_refuses_checkpoints_of_an_old_attempt(database: Database, postgres_url: str) -> None:
    run = await create_run(database)
    async with open_checkpointer(postgres_url) as saver:
        await write_checkpoint(saver, run)
        kept = await saver.aget_tuple({"configurable": {"thread_id": "t"}})
        claimed = await database.write(partial(reclaim_run, run=run, process="other"))
        assert claimed is not None and kept is not None
        with pytest.raises(RunLost, match="taken over by another process"):
            await write_checkpoint(saver, run)
        late = {"configurable": {**kept.config["configurable"], WRITER_KEY: CheckpointWriter(run.run_id, run.attempt)}}
        with pytest.raises(RunLost, match="taken over by another process"):
            await saver.aput_writes(late, [("messages", "late")], "late")
        assert await saver.aget_tuple({"configurable": {"thread_id": "t"}}) == kept
        await write_checkpoint(saver, claimed.record)
        assert await saver.aget_tuple({"configurable": {"thread_id": "t"}}) != kept


async def test_the_server_ends_idle_transactions(database: Database, postgres_url: str) -> None:
    run = await create_run(database)
    holds, thaws = Event(), Event()

    def freeze(connection: Connection) -> None:
        insert_events(connection, [build_event(run, 2)])  # holds the run
        holds.set()
        assert thaws.wait(30)

    async with open_postgres(postgres_url, idle_timeout_s=0.3) as frozen, asyncio.timeout(30):
        writing = asyncio.create_task(frozen.write(freeze))
        await asyncio.to_thread(holds.wait, 30)
        claimed = await database.write(partial(reclaim_run, run=run, process="other"))
        thaws.set()
        assert claimed is not None and claimed.record.attempt == 2
        with pytest.raises(RunLost):
            await writing
        assert await list_event_numbers(database, run) == [1]


async def test_retries_after_an_idle_timeout(database: Database, postgres_url: str) -> None:
    run = await create_run(database)
    holds, thaws, tried = Event(), Event(), list[int]()
    touch = text("UPDATE runs SET error = error WHERE run_id = :run_id")

    def dawdle(connection: Connection) -> None:
        insert_events(connection, [build_event(run, 2)])  # holds the run
        tried.append(1)
        holds.set()
        assert thaws.wait(30)

    async with open_postgres(postgres_url, idle_timeout_s=0.1) as slow, asyncio.timeout(30):
        writing = asyncio.create_task(slow.write(dawdle))
        await asyncio.to_thread(holds.wait, 30)
        await database.write(lambda connection: connection.execute(touch, {"run_id": run.run_id}))  # waits for it
        thaws.set()
        await writing
        assert len(tried) == 2 and await list_event_numbers(database, run) == [1, 2]
