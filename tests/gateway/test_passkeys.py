"""Passkeys: registration, login and management, and answers of authenticators that are refused."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.account_server import AUTH, AccountServer, open_account_server
from tests.gateway.authenticator import (
    BACKED_UP,
    BACKUP_ELIGIBLE,
    USER_PRESENT,
    USER_VERIFIED,
    VERIFIED,
    Authenticator,
    encode,
)

PUBLIC_URL, HOST = "https://deerflow.example.com", "deerflow.example.com"


@asynccontextmanager
async def open_with_passkey(home: Path) -> AsyncIterator[tuple[AccountServer, httpx.AsyncClient, Authenticator]]:
    """Run a server and yield it with the browser and the passkey of its administrator."""
    async with open_account_server(home, gateway={"public_url": PUBLIC_URL}) as server:
        http, key = await server.set_up(), Authenticator(PUBLIC_URL, HOST)
        made = await register(http, key)
        assert made.status_code == 200, made.text
        yield server, http, key


async def register(http: httpx.AsyncClient, key: Authenticator, name: str = "laptop") -> httpx.Response:
    begun = await http.post(f"{AUTH}/passkeys/options")
    assert begun.status_code == 200, begun.text
    credential = key.create(begun.json()["options"])
    return await http.post(f"{AUTH}/passkeys", json={"name": name, "credential": credential})


async def begin(http: httpx.AsyncClient) -> dict[str, Any]:
    begun = await http.post(f"{AUTH}/passkeys/login/options")
    assert begun.status_code == 200, begun.text
    options: dict[str, Any] = begun.json()["options"]
    return options


async def send(http: httpx.AsyncClient, credential: dict[str, Any]) -> httpx.Response:
    return await http.post(f"{AUTH}/passkeys/login", json={"credential": credential})


async def log_in(http: httpx.AsyncClient, key: Authenticator) -> httpx.Response:
    return await send(http, key.get(await begin(http)))


async def test_a_person_logs_in_with_a_passkey_and_without_a_name(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (server, admin, key):
        http = server.browser()
        done = await log_in(http, key)
        assert done.status_code == 200 and done.json()["user"]["email"] == "ann@example.com"
        assert (await http.get(f"{AUTH}/me")).json()["id"] == "local"
        (shown,) = (await admin.get(f"{AUTH}/passkeys")).json()
        assert shown["name"] == "laptop" and shown["last_used_at"] and not shown["is_backed_up"]


async def test_options_ask_for_a_verified_person_and_leave_out_known_passkeys(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (_, admin, key):
        options = (await admin.post(f"{AUTH}/passkeys/options")).json()["options"]
        assert options["rp"]["id"] == HOST and options["attestation"] == "none"
        selection = options["authenticatorSelection"]
        assert (selection["userVerification"], selection["residentKey"]) == ("required", "required")
        assert [each["id"] for each in options["excludeCredentials"]] == [encode(key.credential_id)]
        asked = await begin(admin)
        assert (asked["userVerification"], asked["rpId"]) == ("required", HOST)


async def test_passkeys_are_renamed_and_removed_by_their_owner_alone(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (server, admin, key):
        (mine,) = (await admin.get(f"{AUTH}/passkeys")).json()
        path = f"{AUTH}/passkeys/{mine['passkey_id']}"
        bob = await server.join(admin)
        assert (await bob.get(f"{AUTH}/passkeys")).json() == []
        assert (await bob.patch(path, json={"name": "his"})).status_code == 404
        assert (await bob.delete(path)).status_code == 404
        assert (await admin.patch(path, json={"name": " telephone "})).json()["name"] == "telephone"
        assert (await admin.patch(path, json={"name": " "})).status_code == 422
        assert (await admin.delete(path)).status_code == 204
        assert (await log_in(server.browser(), key)).status_code == 401
        listed = (await admin.get("/api/audit", params={"kind": "account"})).json()["entries"]
        recorded = [each["kind"] for each in listed if each["details"].get("passkey") == mine["passkey_id"]]
        assert recorded == ["account.passkey_removed", "account.passkey_added"]


async def test_the_state_of_the_backup_is_kept_up_to_date(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, gateway={"public_url": PUBLIC_URL}) as server:
        admin, key = await server.set_up(), Authenticator(PUBLIC_URL, HOST, VERIFIED | BACKUP_ELIGIBLE)
        assert not (await register(admin, key)).json()["is_backed_up"]
        key.flags |= BACKED_UP
        assert (await log_in(server.browser(), key)).status_code == 200
        (shown,) = (await admin.get(f"{AUTH}/passkeys")).json()
        assert (shown["is_synced"], shown["is_backed_up"]) == (True, True)


async def test_counters_have_to_grow(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (server, _, key):
        for count, expected in ((5, 200), (5, 401), (4, 401), (0, 401), (6, 200)):
            key.count = count
            assert (await log_in(server.browser(), key)).status_code == expected


async def test_a_passkey_of_a_disabled_account_is_refused(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (server, admin, _):
        bob = await server.join(admin)
        key = Authenticator(PUBLIC_URL, HOST)
        await register(bob, key)
        user = (await bob.get(f"{AUTH}/me")).json()["id"]
        await admin.patch(f"{AUTH}/users/{user}", json={"is_active": False})
        assert (await log_in(server.browser(), key)).status_code == 401


def other(known: Authenticator, **changed: Any) -> Authenticator:
    return replace(known, **changed)


LIES: dict[str, Callable[[Authenticator], Authenticator]] = {
    "of a page at another origin": lambda key: other(key, origin="https://evil.example"),
    "of a page without TLS": lambda key: other(key, origin=f"http://{HOST}"),
    "of a page at another port": lambda key: other(key, origin=f"{PUBLIC_URL}:8443"),
    "of a subdomain": lambda key: other(key, origin=f"https://x.{HOST}"),
    "for another site": lambda key: other(key, rp_id="evil.example"),
    "for the domain above": lambda key: other(key, rp_id="example.com"),
    "without a verified person": lambda key: other(key, flags=USER_PRESENT),
    "without a person": lambda key: other(key, flags=USER_VERIFIED),
    "backed up, which was not possible": lambda key: other(key, flags=VERIFIED | BACKUP_ELIGIBLE | BACKED_UP),
    "backed up and not able to": lambda key: other(key, flags=VERIFIED | BACKED_UP),
    "of an unknown passkey": lambda key: other(key, credential_id=b"x" * 32),
    "signed by another key": lambda key: other(key, key=Authenticator(PUBLIC_URL, HOST).key),
    "for another user": lambda key: other(key, user_handle=encode(b"somebody")),
}


async def test_false_answers_do_not_open_a_session(tmp_path: Path) -> None:
    passed = {}
    async with open_with_passkey(tmp_path) as (server, _, key):
        for name, lie in LIES.items():
            http = server.browser()
            answer = await log_in(http, lie(key))
            if answer.status_code != 401 or "set-cookie" in answer.headers:
                passed[name] = answer.text
        assert (await log_in(server.browser(), key)).status_code == 200
    assert passed == {}


REGISTRATION_LIES = ("of a page at another origin", "of a subdomain", "for another site", "without a verified person")


async def test_registrations_that_lie_are_refused(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, gateway={"public_url": PUBLIC_URL}) as server:
        admin = await server.set_up()
        for name in REGISTRATION_LIES:
            answer = await register(admin, LIES[name](Authenticator(PUBLIC_URL, HOST)))
            assert answer.status_code == 422, name
        assert (await admin.get(f"{AUTH}/passkeys")).json() == []


async def test_an_answer_counts_once_and_for_what_it_was_asked(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (server, admin, key):
        http = server.browser()
        answer = key.get(await begin(http))
        assert (await send(http, answer)).status_code == 200
        assert (await send(server.browser(), answer)).status_code == 401
        # A challenge for a registration is none for a login, nor one that the server has not made.
        options = (await admin.post(f"{AUTH}/passkeys/options")).json()["options"]
        assert (await send(server.browser(), key.get(options))).status_code == 401
        assert (await send(server.browser(), key.get({"challenge": encode(b"x" * 64)}))).status_code == 401


async def test_a_challenge_expires(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (server, _, key):
        http = server.browser()
        options = await begin(http)
        resources = server.harness.resources
        vars(resources)["passkeys"] = replace(resources.passkeys, now=lambda: datetime.now(UTC) + timedelta(minutes=6))
        assert (await send(http, key.get(options))).status_code == 401


async def test_a_registration_is_finished_by_who_began_it(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (server, admin, key):
        bob = await server.join(admin)
        options = (await admin.post(f"{AUTH}/passkeys/options")).json()["options"]
        credential = Authenticator(PUBLIC_URL, HOST).create(options)
        assert (await bob.post(f"{AUTH}/passkeys", json={"name": "x", "credential": credential})).status_code == 404
        # The passkey of another person is not taken over.
        assert (await register(bob, key)).status_code == 409


@pytest.mark.parametrize(
    "credential",
    [
        {},
        {"id": "AQ"},
        {"id": 1, "rawId": [], "type": None, "response": "x"},
        {"id": "AQ", "rawId": "AQ", "type": "public-key", "response": {"clientDataJSON": "!!", "signature": "AA"}},
        {
            "id": "AQ",
            "rawId": "AQ",
            "type": "public-key",
            "response": {"clientDataJSON": "e30", "authenticatorData": "AA", "signature": "AA"},
        },
    ],
)
async def test_damaged_answers_are_refused(tmp_path: Path, credential: dict[str, Any]) -> None:
    async with open_with_passkey(tmp_path) as (server, admin, _):
        assert (await send(server.browser(), credential)).status_code == 401
        body = {"name": "x", "credential": credential}
        assert (await admin.post(f"{AUTH}/passkeys", json=body)).status_code == 422


async def test_the_origin_is_never_taken_from_a_foreign_host_header(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        answer = await server.program().post(f"{AUTH}/passkeys/login/options", headers={"host": "evil.example"})
        assert answer.status_code in (403, 422)


async def test_tokens_cannot_register_passkeys(tmp_path: Path) -> None:
    async with open_with_passkey(tmp_path) as (server, admin, _):
        token, _id = await server.create_token(admin, "admin")
        http = server.program(token)
        assert (await http.post(f"{AUTH}/passkeys/options")).status_code == 403
        (mine,) = (await http.get(f"{AUTH}/passkeys")).json()
        assert (await http.delete(f"{AUTH}/passkeys/{mine['passkey_id']}")).status_code == 403
