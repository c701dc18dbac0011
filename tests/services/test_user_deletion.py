"""The deletion of a person leaves no data behind."""

import asyncio
import os
import select as polling
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml
from sqlalchemy import Connection, func, insert, select

from deerflow.accounts.model import ClientInfo
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import LoginFailed
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.harness import Harness, open_harness
from deerflow.mcp.queries import write_token
from deerflow.persistence.queries.audit import AuditEvent, AuditFilter
from deerflow.persistence.queries.deletions import list_owned_tables, list_user_deletions
from deerflow.persistence.tables import mcp_logins, metadata, usage_entries
from deerflow.testing import ScriptedModel, ScriptedServer
from tests.canary import capture_all_logs, files_with, tables_with
from tests.e2e.server_process import ServerLauncher, server_environment
from tests.gateway.populated_server import SECRET, PopulatedServer
from tests.runtime.support import build_request

BOB, BOBS_EMAIL, PASSWORD = LOCAL_USER.user_id, f"bob.{SECRET}@example.com", "correct horse battery"
"""The first account owns what the local user had."""
ANNS_EMAIL, OTHERS = "ann@example.com", "nuthatch"
"""Another person, and a word in what they have."""
KILLS = 4
HERE = ClientInfo("192.0.2.77", f"A browser of a {SECRET}")
pytestmark = pytest.mark.slow


OWNED = [
    table.c[name]
    for table in metadata.sorted_tables
    for name in ("owner", "former_owner", "user_id", "accepted_by")
    if name in table.c
]
"""Columns with the id of a person."""


def count_rows(connection: Connection, owner: str) -> dict[str, int]:
    """Return the number of rows of a person by table."""
    counted = [(each, connection.execute(select(func.count()).where(each == owner)).scalar_one()) for each in OWNED]
    return {f"{column.table.name}.{column.name}": count for column, count in counted if count}


async def add_accounts(harness: Harness) -> None:
    """Create the account of the person, with all that belongs to it, and an administrator."""
    accounts, logins, database = harness.resources.accounts, harness.resources.logins, harness.core.database
    bob, now = await accounts.add(BOBS_EMAIL, PASSWORD, "admin"), datetime.now(UTC)
    await accounts.add(ANNS_EMAIL, PASSWORD, "admin")
    session = await logins.log_in(BOBS_EMAIL, PASSWORD, HERE)
    with pytest.raises(LoginFailed):
        await logins.log_in(BOBS_EMAIL, "wrong password", HERE)
    who = await harness.resources.authenticator.find("session", session.secret)
    assert who is not None
    await logins.create_token(who.principal, f"laptop of {SECRET}", "run", None)
    await accounts.invite(BOBS_EMAIL.upper(), "user")
    await accounts.create_reset(bob.user_id)
    await harness.resources.profiles.put(who.principal, f"I am a {SECRET}.")
    await database.write(partial(write_token, owner=BOB, server="notes", sealed=SECRET.encode(), now=now))
    login = {"state_hash": "0" * 64, "owner": BOB, "server": "notes", "sealed": SECRET.encode(), "expires_at": now}
    await database.write(lambda connection: None if connection.execute(insert(mcp_logins), login) else None)
    named = AuditEvent("configuration.agent", BOB, BOB, details={"name": SECRET})
    await harness.resources.audit.record(named)


def populate(server: PopulatedServer) -> None:
    """Give the person data of every kind."""
    with server.client() as http:
        server.seed(http)
    server.run(add_accounts(server.harness))


@pytest.fixture
def postgres(database_location: Path | str) -> str | None:
    """Return the URL of the database if it is one of PostgreSQL."""
    return database_location if isinstance(database_location, str) else None


async def find_traces(home: Path, postgres: str | None) -> list[str]:
    in_tables = await asyncio.to_thread(tables_with, SECRET, postgres) if postgres else []
    return [*await asyncio.to_thread(files_with, SECRET, home), *in_tables]


async def test_a_deleted_person_leaves_no_row_no_file_and_no_byte(tmp_path: Path, postgres: str | None) -> None:
    with (
        capture_all_logs() as log,
        PopulatedServer(tmp_path, memory={"storage_path": "memory.json"}).opened() as server,
    ):
        await asyncio.to_thread(populate, server)
        database = server.harness.core.database
        before = server.run(database.read(partial(count_rows, owner=BOB)))
        expected = {"threads.owner", "runs.owner", "usage_entries.owner", "memory_facts.owner", "projects.owner"}
        expected |= {"mcp_tokens.owner", "model_connections.owner", "store_items.owner", "shares.owner"}
        expected |= {"login_sessions.owner", "api_tokens.owner", "mcp_logins.owner", "feedback.owner"}
        assert expected <= before.keys(), before
        assert len(await find_traces(tmp_path, postgres)) >= 5

        assert server.run(server.harness.user_deletions.delete(BOB)) is True

        assert await find_traces(tmp_path, postgres) == []
        assert server.run(database.read(partial(count_rows, owner=BOB))) == {}
        audit = server.harness.resources.audit
        report = server.run(audit.verify())
        assert report.is_valid, report.problems
        kinds = [each.kind for each in server.run(audit.list(AuditFilter(person=BOB)))]
        assert kinds[:2] == ["account.erased", "account.deleted"]
        assert len(server.run(server.harness.resources.accounts.list())) == 1
    assert await find_traces(tmp_path, postgres) == []
    assert SECRET not in log.getvalue()


class Crash(Exception):
    """Stands for the end of the process."""


async def crash(_: str) -> None:
    raise Crash


@pytest.mark.parametrize("place", ["_cleanups", "_on_erased"])
async def test_a_deletion_that_was_broken_off_is_finished_by_the_next_process(
    tmp_path: Path, postgres: str | None, place: str
) -> None:
    with PopulatedServer(tmp_path).opened() as server:
        await asyncio.to_thread(populate, server)
        deletions = server.harness.user_deletions
        setattr(deletions, place, (crash,) if place == "_cleanups" else crash)
        assert server.run(deletions.delete(BOB)) is False
        assert server.run(deletions.finish()) is False
        (mark,) = server.run(server.harness.core.database.read(list_user_deletions))
        assert mark.user_id == BOB
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, ScriptedModel.saying()) as harness, asyncio.timeout(90):
        while await harness.core.database.read(list_user_deletions):
            await harness.user_deletions.finish()
        assert await harness.core.database.read(partial(count_rows, owner=BOB)) == {}
        assert (await harness.resources.audit.verify()).is_valid
    assert await find_traces(tmp_path, postgres) == []


async def test_usage_is_kept_without_the_person_if_that_is_configured(source: ConfigSource, tmp_path: Path) -> None:
    anonymous = open_source(directory=tmp_path, environment={}, overrides={"users": {"deleted_usage": "anonymous"}})
    async with open_harness(anonymous, ScriptedModel.saying("Hello.", "Hello.")) as harness:
        accounts = harness.resources.accounts
        await accounts.add("ann@example.com", PASSWORD, "admin")
        bob = await accounts.add("bob@example.com", PASSWORD, "user")
        who = Principal(bob.user_id)
        run = await harness.runs.create_or_reject(build_request("Hi."), who)
        await harness.runs.join(run.thread_id, run.run_id, who)
        count = select(func.count()).select_from(usage_entries)
        assert await harness.core.database.read(lambda connection: connection.execute(count).scalar()) == 1
        assert await harness.user_deletions.delete(bob.user_id)
        assert await harness.core.database.read(lambda connection: connection.execute(count).scalar()) == 1
        assert await harness.core.database.read(partial(count_rows, owner=bob.user_id)) == {}


def test_every_table_with_an_owner_is_emptied() -> None:
    owned = {table.name for table in metadata.sorted_tables if "owner" in table.c}
    assert owned - {table.name for table in list_owned_tables()} == {"threads", "runs", "deletions"}


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Log in as the other person."""
    headers = {"origin": url, "sec-fetch-site": "same-origin", "x-csrf-protection": "1"}
    async with httpx.AsyncClient(base_url=f"{url}/api", headers=headers, timeout=60) as http:
        login = {"email": ANNS_EMAIL, "password": PASSWORD}
        assert (await http.post("/v1/auth/login/local", json=login)).is_success
        yield http


async def add_others(http: httpx.AsyncClient) -> None:
    """Give the other person a conversation, a file, a project and a preference."""
    body = {"input": {"messages": [{"type": "human", "content": f"A {OTHERS}?"}]}}
    made = [
        await http.post("/threads/anns/runs/wait", json=body),
        await http.post("/threads/anns/uploads", files={"files": ("note.txt", f"The {OTHERS} climbs.".encode())}),
        await http.post("/projects", json={"name": f"All about the {OTHERS}"}),
    ]
    assert all(each.is_success for each in made), [each.text for each in made]


async def read_others(http: httpx.AsyncClient) -> list[str]:
    """Return what the other person has."""
    paths = ("/threads/anns/messages/page", "/threads/anns/uploads/list", "/projects", "/memory")
    answers = [await http.get(path) for path in paths]
    assert [each.status_code for each in answers] == [200] * len(paths), [each.text for each in answers]
    return [each.text for each in answers]


def count_all(connection: sqlite3.Connection, owner: str) -> int:
    """Return the number of rows of a person; the record of the deletion is one of them."""
    queries = (f"SELECT count(*) FROM {each.table.name} WHERE {each.name} = ?" for each in OWNED)
    return sum(connection.execute(query, [owner]).fetchone()[0] for query in queries)


def kill_with_fewer_rows(file: Path, pid: int, rows: int) -> int:
    """Kill a server as soon as the person has fewer rows; return their number. The database is locked meanwhile."""
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        left = rows
        while left >= rows:
            left = count_all(connection, BOB)
        connection.execute("BEGIN IMMEDIATE")
        left = count_all(connection, BOB)
        process = os.pidfd_open(pid)
        signal.pidfd_send_signal(process, signal.SIGKILL)
        assert polling.select([process], [], [], 30)[0], "the server is still alive"
        os.close(process)
        connection.execute("ROLLBACK")
    return left


async def test_after_kills_in_the_middle_of_a_deletion_everything_of_the_person_is_gone_and_nothing_of_others(
    tmp_path: Path,
) -> None:
    with PopulatedServer(tmp_path, server_environment(tmp_path)).opened() as populated:
        await asyncio.to_thread(populate, populated)
        location = populated.harness.core.source.current.config.database.get_location(populated.harness.core.home)
    assert isinstance(location, Path)
    async with ScriptedServer([f"The {OTHERS} climbs."]) as model, asyncio.timeout(240):
        entry = model.model_config().model_dump(mode="json", exclude_unset=True) | {"api_key": "scripted-key"}
        off = {"toolbox": {"enabled": False}}
        sections = {
            "models": [entry],
            "sandbox": off,
            "memory": {"debounce_seconds": 3600},
            "title": {"enabled": False},
        }
        config = tmp_path / "config.yaml"
        config.write_text(yaml.safe_dump(sections))
        servers = ServerLauncher(tmp_path, config)
        with closing(sqlite3.connect(location)) as database:
            left = [count_all(database, BOB)]
        with servers.start() as (url, pid):
            async with connect(url) as ann:
                await add_others(ann)
                kept = await read_others(ann)
                deletion = asyncio.create_task(ann.delete(f"/v1/auth/users/{BOB}"))
                left.append(await asyncio.to_thread(kill_with_fewer_rows, location, pid, left[-1]))
                with pytest.raises(httpx.HTTPError):
                    await deletion
        assert left[-1] and files_with(SECRET, tmp_path), "the deletion had ended before the server was killed"
        while left[-1] and len(left) <= KILLS:
            with servers.start() as (_, pid):
                left.append(await asyncio.to_thread(kill_with_fewer_rows, location, pid, left[-1]))
        assert len(left) > 2, left
        with servers.start() as (url, _), closing(sqlite3.connect(location, check_same_thread=False)) as database:
            while await asyncio.to_thread(count_all, database, BOB):
                continue
            database.close()
            async with connect(url) as ann:
                assert await read_others(ann) == kept
                assert (await ann.get("/audit/verify")).json()["is_valid"] is True
                assert len((await ann.get("/v1/auth/users")).json()) == 1
            assert await find_traces(tmp_path, None) == [], left
    assert await find_traces(tmp_path, None) == []
    assert files_with(OTHERS, tmp_path)
