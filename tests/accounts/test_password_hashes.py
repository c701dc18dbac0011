"""Password hashes."""

import asyncio

from argon2 import PasswordHasher

from deerflow.accounts.logins import Passwords

PASSWORD = "correct horse battery"


async def test_a_hash_fits_its_password_alone() -> None:
    passwords = Passwords()
    stored = await passwords.hash(PASSWORD)
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert (await passwords.verify(stored, PASSWORD)).is_correct
    for wrong in ("", PASSWORD.upper(), f"{PASSWORD} "):
        assert not (await passwords.verify(stored, wrong)).is_correct
    assert not (await passwords.verify(None, PASSWORD)).is_correct
    assert not (await passwords.verify("not a hash", PASSWORD)).is_correct


async def test_a_hash_with_other_parameters_is_replaced() -> None:
    passwords = Passwords()
    old = PasswordHasher(1, 8192, 1).hash(PASSWORD)
    check = await passwords.verify(old, PASSWORD)
    assert check.is_correct and check.new_hash is not None
    assert (await passwords.verify(check.new_hash, PASSWORD)).new_hash is None


async def test_a_caller_that_leaves_does_not_free_the_slot_of_its_thread() -> None:
    passwords = Passwords(slots=1, max_waiting=0)
    leaving = asyncio.create_task(passwords.verify(None, PASSWORD))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait({leaving})
    assert passwords.is_busy
    async with asyncio.timeout(10):
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert not passwords.is_busy
    assert not (await passwords.verify(None, PASSWORD)).is_correct
