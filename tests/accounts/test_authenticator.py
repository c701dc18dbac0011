"""Credentials of requests: how they are found, kept for a moment, and revoked."""

from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from deerflow.accounts.model import Credential, hash_secret
from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import UsersConfig
from deerflow.domain.identity import Principal
from deerflow.persistence.engine.database import Database
from tests.accounts.support import Parts


class Request:
    """Open request that remembers its end."""

    def __init__(self, credential: Credential, secret: str) -> None:
        self.credential, self.secret_hash = credential, hash_secret(secret)
        self.is_revoked = False

    async def has_access(self) -> bool:
        return True

    def revoke(self) -> None:
        self.is_revoked = True


async def test_a_login_is_needed_as_soon_as_another_process_has_added_an_account(
    parts: Parts, database: Database
) -> None:
    assert not await parts.authenticator.needs_login()
    await Parts.create(database, Settings(UsersConfig)).add()
    now = parts.authenticator.clock()
    parts.authenticator.clock = lambda: now + 1
    assert await parts.authenticator.needs_login()


async def test_another_process_notices_a_revocation_within_a_second(parts: Parts, database: Database) -> None:
    await parts.add()
    session = await parts.log_in()
    other = Parts.create(database, Settings(UsersConfig))
    assert await other.authenticator.find("session", session.secret) is not None
    await parts.logins.end_all_sessions(Principal(session.account.user_id))
    now = other.authenticator.clock()
    other.authenticator.clock = lambda: now + 1
    assert await other.authenticator.find("session", session.secret) is None


async def test_only_requests_whose_rights_have_changed_end(parts: Parts) -> None:
    await parts.add()
    bob = await parts.add("bob@example.com")
    sessions = [await parts.log_in(email) for email in ("ann@example.com", "bob@example.com")]
    requests = []
    for session in sessions:
        credential = await parts.authenticator.find("session", session.secret)
        assert credential is not None
        requests.append(Request(credential, session.secret))
        parts.authenticator.register(requests[-1])
    await parts.accounts.change(bob.user_id, role="admin")
    assert [request.is_revoked for request in requests] == [False, True]
    for request in requests:
        parts.authenticator.unregister(request)


async def test_a_secret_is_not_valid_as_another_kind(parts: Parts) -> None:
    ann = await parts.add()
    session = await parts.log_in()
    token = await parts.logins.create_token(Principal(ann.user_id), "t", "run", None)
    assert await parts.authenticator.find("token", session.secret) is None
    assert await parts.authenticator.find("session", token.secret) is None


async def test_the_last_use_is_recorded_once_a_minute(parts: Parts) -> None:
    ann = await parts.add()
    who, start = Principal(ann.user_id), datetime.now(UTC)
    token = await parts.logins.create_token(who, "t", "run", None)
    used = []
    for seconds in (0, 30, 61, 90):
        parts.authenticator.now = lambda seconds=seconds: start + timedelta(seconds=seconds)
        await parts.authenticator.apply_changes()
        await parts.authenticator.find("token", token.secret)
        used.append((await parts.logins.list_tokens(who))[0].last_used_at)
    assert used == [start, start, start + timedelta(seconds=61), start + timedelta(seconds=61)]


def read_table(connection: Connection, name: str) -> list[object]:
    return list(connection.exec_driver_sql(f"SELECT * FROM {name}"))


async def test_secrets_are_stored_by_hash_alone(parts: Parts, database: Database) -> None:
    ann = await parts.add()
    session = await parts.log_in()
    token = await parts.logins.create_token(Principal(ann.user_id), "t", "run", None)
    link = await parts.accounts.create_reset(ann.user_id)
    secrets = [session.secret, token.secret, link.path.partition("#")[2], "correct horse"]
    tables = ("accounts", "login_sessions", "api_tokens", "account_links", "login_failures")
    rows = [str(await database.read(partial(read_table, name=name))) for name in tables]
    assert not [secret for secret in secrets for row in rows if secret in row]
