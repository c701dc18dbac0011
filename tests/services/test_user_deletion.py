"""The deletion of a person leaves no data behind."""

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
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
from deerflow.testing import ScriptedModel
from tests.canary import capture_all_logs, files_with, tables_with
from tests.gateway.populated_server import SECRET, PopulatedServer
from tests.runtime.support import build_request

BOB, BOBS_EMAIL, PASSWORD = LOCAL_USER.user_id, f"bob.{SECRET}@example.com", "correct horse battery"
"""The first account owns what the local user had."""
HERE = ClientInfo("192.0.2.77", f"A browser of a {SECRET}")
pytestmark = pytest.mark.slow


def count_rows(connection: Connection, owner: str) -> dict[str, int]:
    """Return the number of rows of a person by table."""
    columns = ("owner", "former_owner", "user_id", "accepted_by")
    named = [table.c[name] for table in metadata.sorted_tables for name in columns if name in table.c]
    counted = [(each, connection.execute(select(func.count()).where(each == owner)).scalar_one()) for each in named]
    return {f"{column.table.name}.{column.name}": count for column, count in counted if count}


async def add_accounts(harness: Harness) -> None:
    """Create the account of the person, with all that belongs to it, and an administrator."""
    accounts, logins, database = harness.resources.accounts, harness.resources.logins, harness.core.database
    bob, now = await accounts.add(BOBS_EMAIL, PASSWORD, "admin"), datetime.now(UTC)
    await accounts.add("ann@example.com", PASSWORD, "admin")
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
