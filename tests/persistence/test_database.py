"""Reading, writing, and what is kept when something goes wrong."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from deerflow.domain.errors import ConfigError, StorageUnavailable
from deerflow.domain.projects import ExtractedPassage, ExtractedText
from deerflow.domain.runs import RunEvent
from deerflow.domain.threads import SearchableMessage
from deerflow.persistence.engine import open_database, schema
from deerflow.persistence.engine.schema import SCHEMA_VERSION, load_full_metadata, read_version
from deerflow.persistence.engine.sqlite import create_sqlite_engine
from deerflow.persistence.queries.events import LoggedEvent, read_events
from deerflow.persistence.queries.search import TERM_TABLES, index_messages, remove_from_index, search_text
from deerflow.persistence.queries.threads import (
    find_thread,
    insert_thread,
    merge_metadata,
    search_threads,
    touch_thread,
)
from deerflow.projects.queries import passages, projects
from tests.support import same_as_snapshot

RUN = """
INSERT INTO runs (run_id, thread_id, owner, assistant_id, status, on_disconnect, multitask_strategy, process, attempt,
                  request_hash, request, metadata, created_at, updated_at)
VALUES ('r', 't', 'me', 'a', 'running', 'cancel', 'reject', 'p', 1, '', '{}', '{}', 0, 0)
"""


def add_thread(name: str):
    return lambda connection: insert_thread(connection, name, "me", {})


async def test_commits_waiting_writes_together(tmp_path: Path) -> None:
    async with open_database(tmp_path / "d.db") as database:
        await asyncio.gather(*(database.write(add_thread(f"t{number}")) for number in range(20)))
        found = await database.read(lambda connection: search_threads(connection, "me", 100, 0))
    assert {thread.thread_id for thread in found} == {f"t{number}" for number in range(20)}


async def test_a_failed_write_does_not_affect_others(tmp_path: Path) -> None:
    def fail(connection: Connection) -> None:
        insert_thread(connection, "half", "me", {})
        raise ValueError("no")

    async with open_database(tmp_path / "d.db") as database:
        results = await asyncio.gather(
            database.write(add_thread("a")),
            database.write(fail),
            database.write(add_thread("b")),
            return_exceptions=True,
        )
        found = await database.read(lambda connection: search_threads(connection, "me", 100, 0))
    assert isinstance(results[1], ValueError)
    assert {thread.thread_id for thread in found} == {"a", "b"}


async def test_raises_storage_unavailable_for_database_errors(tmp_path: Path) -> None:
    def refuse(connection: Connection) -> None:
        connection.execute(text("SELECT * FROM nowhere"))

    async with open_database(tmp_path / "d.db") as database:
        with pytest.raises(StorageUnavailable, match="no such table"):
            await database.write(refuse)
        await database.write(add_thread("a"))


async def test_a_cancelled_write_does_not_affect_others(tmp_path: Path) -> None:
    async with open_database(tmp_path / "d.db") as database:
        impatient = asyncio.create_task(database.write(add_thread("a")))
        patient = asyncio.create_task(database.write(add_thread("b")))
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        found = await database.read(lambda connection: search_threads(connection, "me", 100, 0))
    assert {thread.thread_id for thread in found} == {"a", "b"}


async def test_migrations_create_the_declared_tables(tmp_path: Path) -> None:
    def compare(connection: Connection) -> list[object]:
        # What FTS5 keeps behind a virtual table is its own business.
        ours = {"compare_type": False, "include_name": lambda name, kind, _: not str(name).startswith(TERM_TABLES)}
        return list(compare_metadata(MigrationContext.configure(connection, opts=ours), load_full_metadata()))

    async with open_database(tmp_path / "d.db") as database:
        assert await database.read(compare) == []
        assert await database.read(read_version) == SCHEMA_VERSION


async def test_refuses_a_database_of_a_newer_version(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    async with open_database(file):
        pass
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(ConfigError, match=r"has unknown schema version '9999'"):
        async with open_database(file):
            pass


async def test_appends_while_the_file_is_locked(tmp_path: Path) -> None:
    def row(seq: int, run_id: str = "r") -> list[LoggedEvent]:
        return [LoggedEvent(run_id, RunEvent(seq, "custom", b"{}"), datetime.now(UTC))]

    async with open_database(tmp_path / "d.db") as database, asyncio.timeout(10):
        await database.write(add_thread("t"))
        await database.write(lambda connection: connection.exec_driver_sql(RUN))
        other = sqlite3.connect(tmp_path / "d.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(database.append(row(1)))
        durable = asyncio.create_task(database.write(add_thread("t2")))
        await asyncio.sleep(0)
        other.execute("COMMIT")
        await asyncio.gather(waiting, durable, database.append(row(2)))
        found = await database.read(partial(read_events, run_id="r", after=0, limit=10))
        other.execute("DROP TABLE run_events")
        other.close()
        with pytest.raises(StorageUnavailable):
            await database.append(row(3))
    assert [event.seq for event in found] == [1, 2]


async def test_a_large_group_of_writes_gives_way_to_events(tmp_path: Path) -> None:
    """The events of one person do not wait for everything that another has asked for at the same moment."""
    order = list[str]()
    begun, appending = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def write(connection: Connection, name: str) -> str:
        loop.call_soon_threadsafe(begun.set)
        assert appending.wait(10)
        connection.exec_driver_sql("INSERT INTO written VALUES (?)", (name,))
        return name

    def read_order(connection: Connection) -> list[str]:
        return list(connection.exec_driver_sql("SELECT name FROM written ORDER BY rowid").scalars())

    async with open_database(tmp_path / "d.db") as database, asyncio.timeout(30):
        await database.write(add_thread("t"))
        await database.write(lambda connection: connection.exec_driver_sql(RUN))
        await database.write(lambda connection: connection.exec_driver_sql("CREATE TABLE written (name TEXT)"))
        await database.write(
            lambda connection: connection.exec_driver_sql(
                "CREATE TRIGGER note_events AFTER INSERT ON run_events BEGIN INSERT INTO written VALUES ('event'); END"
            )
        )
        names = [f"write-{number}" for number in range(50)]
        writes = asyncio.gather(*(database.write(partial(write, name=name)) for name in names))
        await begun.wait()
        event = LoggedEvent("r", RunEvent(1, "custom", b"{}"), datetime.now(UTC))
        append = asyncio.create_task(database.append([event]))
        await asyncio.sleep(0)
        appending.set()
        await append
        assert list(await writes) == names
        order = await database.read(read_order)
    assert order[0] == "write-0" and order.index("event") == 1
    assert [name for name in order if name != "event"] == names


async def test_migrates_several_new_databases_at_once(tmp_path: Path) -> None:
    async def version_of(file: Path) -> str | None:
        async with open_database(file) as database:
            return await database.read(read_version)

    files = [tmp_path / name for name in ("a.db", "b.db", "c.db", "c.db")]
    async with asyncio.timeout(60):
        assert await asyncio.gather(*map(version_of, files)) == [SCHEMA_VERSION] * 4


async def test_migrates_titles_from_metadata(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    async with open_database(file) as database:
        for name in ("given", "plain"):
            await database.write(add_thread(name))
    with sqlite3.connect(file) as connection:
        drop_projects(connection)
        later = (
            name
            for name in load_full_metadata().tables
            if name.startswith(("memory_", "mcp_", "web_", "model_", "saved_"))
        )
        for table in ("memory_terms", *later, "shares", "installation"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE threads DROP COLUMN agent_title")
        connection.execute("ALTER TABLE runs DROP COLUMN waits_for")
        for index in ("position", "thread_id_position", "owner_position"):
            connection.execute(f"DROP INDEX ix_runs_{index}")
        connection.execute("ALTER TABLE runs DROP COLUMN position")
        connection.execute("CREATE INDEX ix_runs_thread_id_created_at ON runs (thread_id, created_at)")
        connection.execute("CREATE INDEX ix_runs_owner_created_at ON runs (owner, created_at)")
        connection.execute("UPDATE threads SET title = 'The agent''s'")
        connection.execute("""UPDATE threads SET metadata = '{"title": "Mine"}' WHERE thread_id = 'given'""")
        connection.execute("UPDATE alembic_version SET version_num = '0007'")
    connection.close()
    file.with_name("d.db.id").unlink()
    async with open_database(file) as database:
        found = await database.read(lambda connection: search_threads(connection, "me", 100, 0))
        await database.write(partial(merge_metadata, thread_id="given", owner="me", metadata={"title": None}))
        back = await database.read(lambda connection: find_thread(connection, "given", "me"))
    assert {thread.thread_id: thread.title for thread in found} == {"given": "Mine", "plain": "The agent's"}
    assert back.title == "The agent's"


def drop_later_tables(connection: sqlite3.Connection) -> None:
    """Remove the tables that migrations after 0015 create."""
    drop_projects(connection)
    for later in ("model_connections", "saved_models"):
        connection.execute(f"DROP TABLE {later}")


def drop_projects(connection: sqlite3.Connection) -> None:
    """Remove what migrations from 0019 on create."""
    drop_positions(connection)
    connection.execute("DROP TRIGGER passages_deleted")
    for later in ("passage_terms", "passage_vectors", "passages", "project_files", "projects"):
        connection.execute(f"DROP TABLE {later}")
    connection.execute("DROP INDEX ix_threads_project_id")
    connection.execute("ALTER TABLE threads DROP COLUMN project_id")


def drop_account_tables(connection: sqlite3.Connection) -> None:
    """Remove the tables that migrations from 0023 on create."""
    connection.execute("ALTER TABLE runs DROP COLUMN started_by")
    for later in (
        *("hooks", "channel_connections", "channel_leases"),
        *("channel_outbox", "channel_inbound", "channel_chats", "channel_codes", "channel_people"),
        *("accepted_skills", "grants", "team_members", "teams"),
        *("login_attempts", "passkeys", "identities"),
        *("daily_spending", "user_quotas"),
        *("user_deletions", "audit_head", "audit_entries"),
    ):
        connection.execute(f"DROP TABLE {later}")


def drop_positions(connection: sqlite3.Connection) -> None:
    """Remove what migrations from 0020 on create."""
    drop_account_tables(connection)
    for later in ("login_failures", "account_links", "api_tokens", "login_sessions", "accounts"):
        connection.execute(f"DROP TABLE {later}")
    for index in ("ix_threads_activity", "ix_threads_owner_activity", "ix_web_pages_thread_id_position"):
        connection.execute(f"DROP INDEX {index}")
    connection.execute("ALTER TABLE threads DROP COLUMN activity")
    connection.execute("ALTER TABLE web_pages DROP COLUMN position")
    connection.execute("CREATE INDEX ix_threads_owner_updated_at ON threads (owner, updated_at)")
    connection.execute("CREATE INDEX ix_web_pages_thread_id_fetched_at ON web_pages (thread_id, fetched_at)")


async def test_migrates_the_order_of_threads(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    async with open_database(file) as database:
        for name in ("b", "a", "c"):
            await database.write(add_thread(name))
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE passages DROP COLUMN headings")
        drop_positions(connection)
        connection.execute("UPDATE alembic_version SET version_num = '0019'")
    async with open_database(file) as database:
        await database.write(partial(touch_thread, thread_id="a", title=None))
        found = await database.read(partial(search_threads, owner="me", limit=10, offset=0))
    assert [thread.thread_id for thread in found] == ["a", "c", "b"]


async def test_passages_of_an_earlier_version_are_found_and_have_no_headings(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    create = partial(projects.create_project, project_id="p", owner="me", name="p", instructions="")
    add = partial(projects.add_files, project_id="p", owner="me", files=[("a.md", 1)], limit=1)
    claim = partial(projects.claim_files, claim="c", lease=timedelta(seconds=30), limit=1)
    async with open_database(file) as database:
        await database.write(create)
        await database.write(add)
        (queued,) = await database.write(claim)
        extracted = ExtractedText("line", 1, [ExtractedPassage(1, "A heron.", "Birds")])
        await database.write(partial(passages.store_file, file=queued, extracted=extracted))
    with sqlite3.connect(file) as connection:
        drop_account_tables(connection)
        connection.execute("ALTER TABLE passages DROP COLUMN headings")
        connection.execute("UPDATE alembic_version SET version_num = '0021'")
    async with open_database(file) as database:
        found = await database.read(partial(passages.search_terms, project_id="p", query="heron", limit=9))
        load = partial(passages.load_hits, project_id="p", owner="me", row_ids=found)
        (hit,) = await database.read(load)
    assert (hit.text, hit.headings) == ("A heron.", "")


async def test_migrates_events_of_runs_without_loss(tmp_path: Path) -> None:
    file, events = tmp_path / "d.db", [("r", seq, "messages", b"x" * 2_000, seq) for seq in range(1, 51)]
    async with open_database(file) as database:
        await database.write(add_thread("t"))
        await database.write(lambda rows: rows.exec_driver_sql(RUN))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA foreign_keys=ON")
        declared, *_ = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'run_events'").fetchone()
        connection.execute("DROP TABLE run_events")
        connection.execute(f"{declared} WITHOUT ROWID")
        connection.executemany("INSERT INTO run_events VALUES (?, ?, ?, ?, ?)", events)
        drop_later_tables(connection)
        connection.execute("UPDATE alembic_version SET version_num = '0014'")
    async with open_database(file) as database:
        kept = await database.read(lambda rows: rows.exec_driver_sql("SELECT * FROM run_events ORDER BY seq").all())
        assert [tuple(row) for row in kept] == events
        assert await database.read(read_version) == SCHEMA_VERSION
        pages = "SELECT sum(pgsize) FROM dbstat WHERE name = 'run_events'"
        assert await database.read(lambda rows: rows.exec_driver_sql(pages).scalar_one()) < 50 * 2_000 * 1.2


async def test_migrates_the_search_index_without_loss(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    said = [SearchableMessage(f"m{number}", "ai", f"blue whale {number}", datetime.now(UTC)) for number in range(50)]
    async with open_database(file) as database:
        await database.write(add_thread("t"))
        await database.write(partial(index_messages, thread_id="t", owner="me", messages=said))
    with closing(sqlite3.connect(file)) as connection, connection:
        rows = connection.execute("SELECT rowid, terms FROM search_terms").fetchall()
        trigger, *_ = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'search%'")
        connection.execute("DROP TRIGGER search_messages_deleted")
        connection.execute("DROP TABLE search_terms")
        connection.execute("CREATE VIRTUAL TABLE search_terms USING fts5(terms, tokenize = 'ascii')")
        connection.execute(*trigger)
        connection.executemany("INSERT INTO search_terms (rowid, terms) VALUES (?, ?)", rows)
        drop_later_tables(connection)
        connection.execute("UPDATE alembic_version SET version_num = '0015'")
    async with open_database(file) as database:
        find = partial(search_text, query="blue wha", limit=100)
        assert len(await database.read(partial(find, owner="me"))) == len(said)
        assert await database.read(partial(find, owner="somebody")) == []
        await database.write(partial(remove_from_index, thread_id="t", owner="me", message_ids=["m7"]))
        assert len(await database.read(partial(find, owner="me"))) == len(said) - 1


def test_new_files_have_the_tables_that_the_migrations_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created, migrated = (create_sqlite_engine(tmp_path / name, 1) for name in ("created.db", "migrated.db"))
    assert schema.create_tables(created)
    assert not schema.create_tables(created)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "create_tables", lambda _engine: False)
        schema.migrate(migrated)
    with closing(created.connect()) as one, closing(migrated.connect()) as other:
        tables = dump_tables(other)
        same_as_snapshot(str(schema.SQLITE_SCHEMA), tables)
        assert dump_tables(one) == tables
        names = set(inspect(one).get_table_names()) - {"installation"}
        rows = [{name: each.exec_driver_sql(f"SELECT * FROM {name}").all() for name in names} for each in (one, other)]
        assert rows[0] == rows[1]
        ids = [schema.read_database_id(each) for each in (one, other)]
        assert all(ids) and ids[0] != ids[1]
    created.dispose()
    migrated.dispose()


def dump_tables(connection: Connection) -> str:
    """Return the statements that create the tables of a SQLite database, for the file at `SQLITE_SCHEMA`."""
    query = """
    SELECT sql FROM sqlite_master
    WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
      AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')
    ORDER BY type <> 'table', name
    """
    statements = (str(row[0]).replace("\t", "  ") for row in connection.exec_driver_sql(query))
    return "".join(
        "\n".join(line.rstrip() for line in statement.splitlines() if line.strip()) + schema.STATEMENT_END
        for statement in statements
    )
