"""The audit log finds every change that somebody makes to it."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from sqlalchemy import Connection, text

from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import UsersConfig
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import InvalidRequest, LoginFailed, NotFound
from deerflow.domain.identity import Principal
from deerflow.harness import open_harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database, DatabaseLocation
from deerflow.persistence.queries import audit as rows
from deerflow.persistence.queries.audit import AuditEvent, AuditFilter, AuditHead, recorded
from deerflow.services.audit import AuditLog, ChainCheck, audited, parse_head
from deerflow.testing import ScriptedModel
from tests.accounts.support import HERE, Parts

ENTRIES = 40
Row = list[Any]


@pytest_asyncio.fixture
async def database(database_location: DatabaseLocation, tmp_path: Path) -> AsyncIterator[Database]:
    """Yield an empty database."""
    async with open_database(database_location, tmp_path / ".deer-flow") as opened:
        yield opened


@pytest.fixture
def parts(database: Database) -> Parts:
    """Return the services of accounts."""
    return Parts.create(database, Settings(UsersConfig))


async def fill(log: AuditLog, count: int = ENTRIES) -> None:
    """Add entries with and without details, of several people."""
    for number in range(count):
        details = {"tool": f"tool-{number}", "thread": "t"} if number % 3 else {}
        await log.record(AuditEvent("run.tool_call", f"user-{number % 4}", f"user-{number % 5}", details=details))


async def tamper(database: Database, statement: str) -> None:
    def change(connection: Connection) -> None:
        connection.execute(text(statement))

    await database.write(change)


async def test_nothing_is_recorded_while_there_are_no_accounts(database: Database) -> None:
    log = AuditLog(database)
    await fill(log, 3)
    assert await log.read_head() == AuditHead(0, rows.GENESIS)
    assert (await log.verify()).is_valid


async def test_an_entry_is_part_of_the_transaction_that_it_records(database: Database, parts: Parts) -> None:
    await parts.add()
    before = await AuditLog(database).read_head()

    def fail(connection: Connection) -> None:
        rows.record_events(connection, AuditEvent("account.login"))
        raise NotFound("nothing")

    with pytest.raises(NotFound):
        await database.write(recorded(fail, AuditEvent("account.login")))
    with pytest.raises(NotFound):
        await audited(parts.accounts, AuditEvent("account.login")).withdraw_invitation("none")
    assert await AuditLog(database).read_head() == before


async def test_logins_and_changes_of_accounts_are_recorded_without_secrets(database: Database, parts: Parts) -> None:
    ann = await parts.add()
    session = await parts.log_in()
    with pytest.raises(LoginFailed):
        await parts.logins.log_in("ann@example.com", "not the password", HERE)
    with pytest.raises(LoginFailed):
        await parts.logins.log_in("hunter2@example.com", "not the password", HERE)
    token = await parts.logins.create_token(Principal(ann.user_id, is_admin=True), "laptop", "run", None)
    invited = await parts.accounts.invite("bob@example.com", "user", Principal(ann.user_id))
    log = AuditLog(database)
    found = await log.list(AuditFilter())
    assert [(each.kind, each.actor, each.subject, each.outcome) for each in reversed(found)] == [
        ("account.created", None, ann.user_id, "success"),
        ("account.login", ann.user_id, ann.user_id, "success"),
        ("account.login", None, ann.user_id, "failure"),
        ("account.login", None, None, "failure"),
        ("account.token_created", ann.user_id, ann.user_id, "success"),
        ("account.invited", ann.user_id, None, "success"),
    ]
    written = "".join(f"{each.details}" for each in found)
    for secret in (session.secret, token.secret, invited.path.partition("#")[2], "password", "hunter2", "example.com"):
        assert secret not in written
    assert {each.seq for each in await log.list(AuditFilter(kind="account"))} == {each.seq for each in found}
    assert await log.list(AuditFilter(kind="account.log")) == []
    assert len(await log.list(AuditFilter(person=ann.user_id, kind="account.login"))) == 2
    assert [each.seq for each in await log.list(AuditFilter(), before=4, limit=2)] == [3, 2]


async def test_processes_share_one_chain(database: Database, parts: Parts, tmp_path: Path) -> None:
    await parts.add()
    source = tmp_path / ".deer-flow"
    location: DatabaseLocation = source / "data" / "deerflow.db"
    config = tmp_path / "config.yaml"
    if config.exists():
        location = config.read_text().partition("url: ")[2].strip()
    async with open_database(location, source) as other, asyncio.timeout(60):
        await asyncio.gather(*(fill(AuditLog(each), 10) for each in (database, other) for _ in range(3)))
    report = await AuditLog(database).verify()
    assert report.is_valid, report.problems
    assert report.entries == report.head.seq == 61


async def test_all_of_1000_random_tamperings_are_found(database: Database, parts: Parts) -> None:
    await parts.add()
    log = AuditLog(database)
    await fill(log)
    head = await log.read_head()
    kept = [list(row) for row in await database.read(lambda each: rows.read_raw_entries(each, 0, head.seq))]
    assert check(kept, head, head).is_valid
    chance, missed = random.Random(20261119), []
    for number in range(1000):
        change = chance.choice([edit, delete, swap, truncate, forge])
        changed, new_head = change([list(row) for row in kept], head, chance)
        if check(changed, new_head, head).is_valid:
            missed.append((number, change.__name__))
    assert missed == []


def check(entries: Sequence[Row], head: AuditHead, anchor: AuditHead) -> Any:
    verification = ChainCheck(anchor)
    verification.add(entries)
    return verification.finish(head, max((row[0] for row in entries), default=0))


def edit(entries: list[Row], head: AuditHead, chance: random.Random) -> tuple[list[Row], AuditHead]:
    """Change one field of one entry, also to another type, or erase its details."""
    row, column = chance.choice(entries), chance.randrange(1, 10)
    if row[6] is not None and chance.random() < 0.2:
        row[6] = row[7] = None
    elif chance.random() < 0.1:
        row[column] = b"\0"
    else:
        row[column] = row[column] + 1 if column == 1 else f"{row[column] or ''}x"
    return entries, head


def delete(entries: list[Row], head: AuditHead, chance: random.Random) -> tuple[list[Row], AuditHead]:
    """Remove some entries from the middle or the end."""
    start = chance.randrange(len(entries))
    del entries[start : start + chance.randint(1, 5)]
    return entries, head


def swap(entries: list[Row], head: AuditHead, chance: random.Random) -> tuple[list[Row], AuditHead]:
    """Exchange two entries; they keep their numbers."""
    first, second = chance.sample(range(len(entries)), 2)
    number, other = entries[first][0], entries[second][0]
    entries[first], entries[second] = entries[second], entries[first]
    entries[first][0], entries[second][0] = number, other
    return entries, head


def truncate(entries: list[Row], head: AuditHead, chance: random.Random) -> tuple[list[Row], AuditHead]:
    """Remove the last entries, and make the head fit."""
    del entries[chance.randrange(len(entries)) :]
    return entries, AuditHead(entries[-1][0], entries[-1][9]) if entries else AuditHead(0, rows.GENESIS)


def forge(entries: list[Row], head: AuditHead, chance: random.Random) -> tuple[list[Row], AuditHead]:
    """Change an entry and compute all hashes after it again, and the head."""
    entries[chance.randrange(len(entries))][2] = "account.logout"
    previous = rows.GENESIS
    for row in entries:
        row[9] = previous = rows.hash_entry(previous, (*row[:6], row[8]))
    return entries, AuditHead(entries[-1][0], previous)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entries SET outcome = 'failure' WHERE seq = 7",
        "UPDATE audit_entries SET at = at + 1 WHERE seq = 7",
        "UPDATE audit_entries SET details = NULL, salt = NULL WHERE seq = 7",
        "DELETE FROM audit_entries WHERE seq = 7",
        "DELETE FROM audit_entries WHERE seq > 30",
        "DELETE FROM audit_entries",
        "UPDATE audit_entries SET seq = -seq WHERE seq = 1",
        "UPDATE audit_entries SET seq = seq + 1000000000000 WHERE seq = 41",
        "DELETE FROM audit_head",
        "UPDATE audit_head SET seq = 40",
    ],
)
async def test_changes_in_the_database_are_found(database: Database, parts: Parts, statement: str) -> None:
    await parts.add()
    log = AuditLog(database)
    await fill(log)
    assert (await log.verify()).is_valid
    await tamper(database, statement)
    assert not (await log.verify()).is_valid


async def test_a_log_that_was_cut_off_with_its_head_is_found_with_a_head_that_was_kept(
    database: Database, parts: Parts
) -> None:
    await parts.add()
    log = AuditLog(database)
    await fill(log)
    kept = parse_head(str(await log.read_head()))
    await fill(log, 2)
    assert (await log.verify(kept)).is_valid
    (entry,) = await log.list(AuditFilter(), before=31, limit=1)
    await tamper(database, "DELETE FROM audit_entries WHERE seq > 30")
    await tamper(database, f"UPDATE audit_head SET seq = 30, hash = '{entry.hash}'")
    assert (await log.verify()).is_valid
    assert "once had 41 entries" in (await log.verify(kept)).problems[0].reason
    with pytest.raises(InvalidRequest):
        parse_head("41")


async def test_details_of_a_deleted_person_are_erased_and_the_chain_stays_valid(
    database: Database, parts: Parts
) -> None:
    ann, bob = await parts.add(), await parts.add("bob@example.com")
    log = AuditLog(database)
    await log.record(AuditEvent("configuration.agent", bob.user_id, bob.user_id, details={"name": "kingfisher"}))
    await parts.accounts.delete(bob.user_id, "here", Principal(ann.user_id))
    await database.write(lambda connection: rows.erase_details(connection, bob.user_id))
    report = await log.verify(await log.read_head())
    assert report.is_valid, report.problems
    found = await log.list(AuditFilter(person=bob.user_id))
    assert [each.is_erased for each in found if each.kind == "configuration.agent"] == [True]
    assert all(each.details is None for each in found)


async def test_an_export_has_all_that_is_needed_to_verify_it_elsewhere(database: Database, parts: Parts) -> None:
    await parts.add()
    log = AuditLog(database)
    await fill(log)
    exported = b"".join([lines async for lines in log.export(AuditFilter())])
    previous, read = rows.GENESIS, [orjson.loads(line) for line in exported.splitlines()]
    for each in read:
        fields = [each[name] for name in ("seq", "at", "kind", "actor", "subject", "outcome", "details_hash")]
        previous = rows.hash_entry(previous, fields)
        assert previous == each["hash"]
        assert each["details"] is None or rows.hash_details(each["salt"], each["details"]) == each["details_hash"]
    assert len(read) == ENTRIES + 1
    middle = (await log.list(AuditFilter(), limit=10))[-1].at
    later = [line async for lines in log.export(AuditFilter(since=middle)) for line in lines.splitlines()]
    assert len(later) >= 10
    earlier = [line async for lines in log.export(AuditFilter(until=middle)) for line in lines.splitlines()]
    assert len(earlier) + len(later) == len(read)


async def test_the_head_of_the_audit_log_is_logged_at_the_start_and_not_again_on_the_same_day(
    source: ConfigSource, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "deerflow")
    async with open_harness(source, ScriptedModel.saying()) as harness:
        resources = harness.resources
        assert await resources.log_audit_head()
        assert "head of the audit log" not in caplog.text
        await resources.accounts.add("ann@example.com", "correct horse battery", "admin")
        for _ in range(2):
            assert await resources.log_audit_head()
        assert caplog.text.count(f"head of the audit log: {await resources.audit.read_head()}") == 1
