"""Accounts, roles and links, with races between processes."""

import asyncio

import pytest

from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import UsersConfig
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.identity import LOCAL_USER, PLAIN_ID
from deerflow.persistence.engine.database import Database
from tests.accounts.support import PASSWORD, Parts


async def test_the_first_account_is_the_local_administrator_and_others_get_opaque_ids(parts: Parts) -> None:
    first, second = await parts.add(), await parts.add("bob@example.com")
    assert (first.user_id, first.role) == (LOCAL_USER.user_id, "admin")
    assert second.role == "user" and len(second.user_id) == 32 and PLAIN_ID.fullmatch(second.user_id)


async def test_processes_that_add_the_first_account_at_once_add_one(parts: Parts, database: Database) -> None:
    others = [Parts.create(database, Settings(UsersConfig)) for _ in range(4)]
    paths = [await each.accounts.create_setup_path() for each in others]
    tries = [
        each.accounts.set_up(path.partition("#")[2], f"p{i}@example.com", PASSWORD)
        for i, (each, path) in enumerate(zip(others, paths, strict=True))
    ]
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(each, tuple) for each in done) == 1
    assert all(isinstance(each, tuple | Conflict) for each in done)
    assert len(await parts.accounts.list()) == 1


async def test_an_address_has_one_account_however_it_is_written(parts: Parts) -> None:
    await parts.add()
    for spelling in ("ANN@example.com", " ann@example.com ", "ａnn@example.com"):
        with pytest.raises(Conflict):
            await parts.add(spelling)


@pytest.mark.parametrize("email", ["", "ann", "ann@", "@example.com", "a b@example.com", "a\n@b", "a@" + "b" * 300])
async def test_what_is_no_address_is_refused(parts: Parts, email: str) -> None:
    with pytest.raises(InvalidRequest):
        await parts.add(email)


async def test_administrators_who_demote_each_other_at_once_leave_one(parts: Parts) -> None:
    first, second = await parts.add(), await parts.add("bob@example.com")
    await parts.accounts.change(second.user_id, role="admin")
    tries = [parts.accounts.change(each.user_id, role="user") for each in (first, second)]
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(each, Conflict) for each in done) == 1
    assert [each.is_admin for each in await parts.accounts.list()].count(True) == 1


async def test_a_disabled_administrator_is_not_counted(parts: Parts) -> None:
    first, second = await parts.add(), await parts.add("bob@example.com")
    await parts.accounts.change(second.user_id, role="admin")
    await parts.accounts.change(second.user_id, is_active=False)
    with pytest.raises(Conflict):
        await parts.accounts.delete(first.user_id, "here")


async def test_an_invitation_is_used_once_by_many_who_try(parts: Parts) -> None:
    await parts.add()
    token = (await parts.accounts.invite(None, "user")).path.partition("#")[2]
    tries = [parts.accounts.accept_invitation(token, f"p{i}@example.com", PASSWORD) for i in range(5)]
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(each, tuple) for each in done) == 1
    assert sum(isinstance(each, NotFound) for each in done) == 4
    assert len(await parts.accounts.list()) == 2


async def test_a_used_address_does_not_use_up_an_invitation(parts: Parts) -> None:
    await parts.add()
    token = (await parts.accounts.invite(None, "user")).path.partition("#")[2]
    with pytest.raises(Conflict):
        await parts.accounts.accept_invitation(token, "ann@example.com", PASSWORD)
    assert (await parts.accounts.find_link(token)).kind == "invitation"


async def test_a_deleted_account_leaves_no_credentials(parts: Parts) -> None:
    await parts.add()
    bob = await parts.add("bob@example.com")
    session = await parts.log_in("bob@example.com")
    reset = (await parts.accounts.create_reset(bob.user_id)).path.partition("#")[2]
    await parts.accounts.delete(bob.user_id, "here")
    assert await parts.authenticator.find("session", session.secret) is None
    with pytest.raises(NotFound):
        await parts.accounts.reset_password(reset, PASSWORD)
