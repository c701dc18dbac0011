"""Logins, their limits, and API tokens."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from deerflow.accounts.logins import MAX_FAILURES, WINDOW, to_network
from deerflow.accounts.model import ClientInfo
from deerflow.domain.errors import Forbidden, LoginFailed, TooManyAttempts
from deerflow.domain.identity import Principal
from tests.accounts.support import HERE, PASSWORD, Parts

WRONG = "not the password"


async def test_failures_at_the_same_time_do_not_exceed_the_limit(parts: Parts) -> None:
    await parts.add()
    clients = [ClientInfo(f"192.0.2.{number}") for number in range(2 * MAX_FAILURES)]
    tries = [parts.logins.log_in("ann@example.com", WRONG, client) for client in clients]
    done = await asyncio.gather(*tries, return_exceptions=True)
    kinds = [type(each) for each in done]
    assert set(kinds) == {LoginFailed, TooManyAttempts} and kinds.count(LoginFailed) <= MAX_FAILURES


async def test_the_limit_moves_with_the_time(parts: Parts) -> None:
    await parts.add()
    start = datetime.now(UTC)
    for minute in range(MAX_FAILURES):
        at = replace(parts.logins, now=lambda minute=minute: start + timedelta(minutes=minute))
        with pytest.raises(LoginFailed):
            await at.log_in("ann@example.com", WRONG, HERE)
    full = replace(parts.logins, now=lambda: start + timedelta(minutes=MAX_FAILURES))
    with pytest.raises(TooManyAttempts) as refused:
        await full.log_in("ann@example.com", PASSWORD, HERE)
    assert refused.value.retry_after_s == (WINDOW - timedelta(minutes=MAX_FAILURES)).total_seconds()
    later = replace(parts.logins, now=lambda: start + WINDOW + timedelta(seconds=1))
    assert (await later.log_in("ann@example.com", PASSWORD, HERE)).account.email == "ann@example.com"


async def test_logins_that_succeed_do_not_count(parts: Parts) -> None:
    await parts.add()
    for _ in range(MAX_FAILURES + 2):
        await parts.log_in()


async def test_a_login_does_not_forgive_the_failures_of_others(parts: Parts) -> None:
    await parts.add()
    for number in range(MAX_FAILURES):
        with pytest.raises(LoginFailed):
            await parts.logins.log_in("ann@example.com", WRONG, HERE)
        if number < MAX_FAILURES - 1:
            await parts.log_in()
    with pytest.raises(TooManyAttempts):
        await parts.logins.log_in("ann@example.com", WRONG, HERE)


async def test_only_administrators_make_tokens_for_administration(parts: Parts) -> None:
    await parts.add()
    bob = await parts.add("bob@example.com")
    with pytest.raises(Forbidden):
        await parts.logins.create_token(Principal(bob.user_id), "t", "admin", None)
    made = await parts.logins.create_token(Principal(bob.user_id), "t", "run", None)
    found = await parts.authenticator.find("token", made.secret)
    assert found is not None and found.principal.user_id == bob.user_id and not found.principal.is_admin


async def test_tokens_expire(parts: Parts) -> None:
    ann = await parts.add()
    made = await parts.logins.create_token(Principal(ann.user_id), "t", "run", 1)
    assert await parts.authenticator.find("token", made.secret) is not None
    parts.authenticator.now = lambda: datetime.now(UTC) + timedelta(days=1, seconds=1)
    await parts.authenticator.apply_changes()
    assert await parts.authenticator.find("token", made.secret) is None


async def test_passwords_in_other_forms_of_unicode_are_the_same(parts: Parts) -> None:
    await parts.accounts.add("zoë@example.com", "cafe\u0301 au lait", "user")
    assert (await parts.logins.log_in("zoe\u0308@example.com", "caf\u00e9 au lait", HERE)).secret


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix", "unix"),
    ],
)
def test_addresses_are_counted_by_customer(address: str, network: str) -> None:
    assert to_network(address) == network
