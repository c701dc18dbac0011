"""Identities, passkeys and logins that have begun, with races between processes."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from deerflow.accounts.accounts import new_user_id
from deerflow.accounts.model import Identity, LoginAttempt, Passkey, UserAccount
from deerflow.accounts.queries import login_methods as rows
from deerflow.domain.errors import Conflict, NotFound, TooManyAttempts
from deerflow.domain.identity import Principal, new_id
from deerflow.persistence.engine.database import Database
from tests.accounts.support import Parts

NOW = datetime.now(UTC)
ISSUER = "https://login.example.com"


def make_attempt(network: str = "here", **changed: object) -> LoginAttempt:
    fields = {"kind": "sso", "user_id": None, "network": network, "data": {"a": "数"}, "expires_at": NOW}
    return LoginAttempt(**{**fields, "expires_at": NOW + timedelta(minutes=5), **changed})  # type: ignore[arg-type]


def make_passkey(owner: str, credential: bytes = b"\0\xff") -> Passkey:
    return Passkey(new_id(), owner, credential, b"key", 0, False, False, "laptop", NOW)


async def create(database: Database, email: str, subject: str = "s") -> None:
    account = UserAccount(new_user_id(), email, "user", is_active=True, created_at=NOW)
    identity = Identity(new_id(), account.user_id, ISSUER, subject, email, NOW)
    password = f"{rows.UNUSABLE_PASSWORD}{new_id()}"
    change = partial(rows.create_account_of, new=identity, account=account, password_hash=password)
    await database.write(change)


async def test_an_attempt_is_taken_once_by_many_who_try(database: Database) -> None:
    await database.write(partial(rows.insert_attempt, new=make_attempt(), key_hash="k", now=NOW))
    take = partial(rows.take_attempt, key_hash="k", kind="sso", now=NOW)
    done = await asyncio.gather(*[database.write(take) for _ in range(5)], return_exceptions=True)
    assert [each for each in done if isinstance(each, LoginAttempt)] == [make_attempt()]
    assert sum(isinstance(each, NotFound) for each in done) == 4


async def test_an_attempt_of_another_kind_or_time_is_not_found(database: Database) -> None:
    await database.write(partial(rows.insert_attempt, new=make_attempt(), key_hash="k", now=NOW))
    for kind, now in (("passkey", NOW), ("sso", NOW + timedelta(minutes=6))):
        with pytest.raises(NotFound):
            await database.write(partial(rows.take_attempt, key_hash="k", kind=kind, now=now))


async def test_attempts_of_one_network_are_limited_until_they_expire(database: Database) -> None:
    for number in range(rows.MAX_NETWORK_ATTEMPTS):
        await database.write(partial(rows.insert_attempt, new=make_attempt(), key_hash=str(number), now=NOW))
    more = partial(rows.insert_attempt, new=make_attempt(), key_hash="more")
    with pytest.raises(TooManyAttempts):
        await database.write(partial(more, now=NOW))
    there = partial(rows.insert_attempt, new=make_attempt("there"), key_hash="there", now=NOW)
    await database.write(there)
    await database.write(partial(more, now=NOW + timedelta(minutes=6)))


async def test_logins_of_a_new_person_at_once_create_one_account(parts: Parts, database: Database) -> None:
    tries = [create(database, f"p{number}@example.com") for number in range(4)]
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(each is None for each in done) == 1 and all(each is None or isinstance(each, Conflict) for each in done)
    assert len(await parts.accounts.list()) == 1  # the accounts of the others are not kept


async def test_the_last_way_to_log_in_is_kept_by_parallel_removals(parts: Parts, database: Database) -> None:
    await create(database, "cat@example.com")
    (account,) = await parts.accounts.list()
    (identity,) = await database.read(partial(rows.list_identities, owner=account.user_id))
    passkey = make_passkey(account.user_id)
    await database.write(partial(rows.insert_passkey, new=passkey))
    done = await asyncio.gather(
        database.write(partial(rows.delete_identity, owner=account.user_id, identity_id=identity.identity_id)),
        database.write(partial(rows.delete_passkey, owner=account.user_id, passkey_id=passkey.passkey_id)),
        return_exceptions=True,
    )
    assert sorted(type(each) for each in done if each is not None) == [Conflict]


async def test_with_a_password_everything_else_may_be_removed(parts: Parts, database: Database) -> None:
    ann = await parts.add()
    passkey = make_passkey(ann.user_id)
    await database.write(partial(rows.insert_passkey, new=passkey))
    await database.write(partial(rows.delete_passkey, owner=ann.user_id, passkey_id=passkey.passkey_id))
    assert await database.read(partial(rows.list_passkeys, owner=ann.user_id)) == []


async def test_a_counter_is_used_once_by_parallel_logins(parts: Parts, database: Database) -> None:
    passkey = make_passkey((await parts.add()).user_id)
    await database.write(partial(rows.insert_passkey, new=passkey))
    use = partial(rows.record_passkey_use, used=passkey, is_backed_up=False, now=NOW)
    done = await asyncio.gather(*[database.write(partial(use, sign_count=1)) for _ in range(3)], return_exceptions=True)
    assert [type(each) for each in done].count(Conflict) == 2
    found = await database.read(partial(rows.find_passkey, credential_id=passkey.credential_id))
    assert found is not None and (found.sign_count, found.public_key) == (1, b"key")


async def test_a_deleted_account_leaves_no_identities_and_passkeys(parts: Parts, database: Database) -> None:
    await parts.add()
    await create(database, "cat@example.com")
    cat = await parts.accounts.find_by_email("cat@example.com")
    await database.write(partial(rows.insert_passkey, new=make_passkey(cat.user_id)))
    begun = make_attempt(user_id=cat.user_id)
    await database.write(partial(rows.insert_attempt, new=begun, key_hash="k", now=NOW))
    await parts.accounts.delete(cat.user_id, "this process")
    assert await database.read(partial(rows.find_identity, issuer=ISSUER, subject="s")) is None
    assert await database.read(partial(rows.list_passkeys, owner=Principal(cat.user_id).user_id)) == []
    with pytest.raises(NotFound):
        await database.write(partial(rows.take_attempt, key_hash="k", kind="sso", now=NOW))


async def test_passkeys_of_one_account_are_limited(parts: Parts, database: Database) -> None:
    ann = await parts.add()
    for number in range(rows.MAX_PASSKEYS):
        await database.write(partial(rows.insert_passkey, new=make_passkey(ann.user_id, bytes([number]))))
    with pytest.raises(Conflict):
        await database.write(partial(rows.insert_passkey, new=make_passkey(ann.user_id, b"more")))
