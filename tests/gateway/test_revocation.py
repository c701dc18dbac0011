"""Open event streams end within a second after their session or token is revoked."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

import httpx
import pytest

from deerflow.accounts.accounts import Accounts
from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.logins import Passwords
from deerflow.accounts.model import Credential
from deerflow.domain.identity import Principal
from deerflow.gateway.middleware.authentication import GuardedRequest
from deerflow.persistence.engine import open_database
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.gateway.account_server import AUTH, PASSWORD, AccountServer, open_account_server

HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}, "stream_mode": ["messages-tuple"]}
LIMIT_S = 1.0

Revoke = Callable[[AccountServer, httpx.AsyncClient, httpx.AsyncClient], Awaitable[object]]


async def log_out(server: AccountServer, ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    await bob.post(f"{AUTH}/logout")


async def end_elsewhere(server: AccountServer, ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    body = {"current_password": PASSWORD, "new_password": "another horse battery"}
    answer = await (await server.log_in("bob@example.com")).post(f"{AUTH}/change-password", json=body)
    assert answer.status_code == 204


async def deactivate(server: AccountServer, ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    bobs = (await bob.get(f"{AUTH}/me")).json()["id"]
    assert (await ann.patch(f"{AUTH}/users/{bobs}", json={"is_active": False})).status_code == 200


async def demote(server: AccountServer, ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    bobs = (await bob.get(f"{AUTH}/me")).json()["id"]
    assert (await ann.patch(f"{AUTH}/users/{bobs}", json={"role": "user"})).status_code == 200


async def deactivate_in_another_process(server: AccountServer, ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    bobs = (await bob.get(f"{AUTH}/me")).json()["id"]
    source = server.harness.core.source
    location = source.current.config.database.get_location(source.current.home)
    async with open_database(location, source.current.home) as database:
        other = Authenticator(database, source.settings(lambda loaded: loaded.config.users))
        await Accounts(database, Passwords(), other).change(bobs, is_active=False)


@pytest.mark.parametrize(
    "revoke",
    [
        log_out,
        end_elsewhere,
        deactivate,
        demote,
        pytest.param(deactivate_in_another_process, marks=pytest.mark.slow),  # it is noticed within a second
    ],
)
@pytest.mark.parametrize("path", ["/api/threads/t/runs/stream", "/api/threads/t/stream"])
async def test_streams_end_when_their_session_does(tmp_path: Path, revoke: Revoke, path: str) -> None:
    model = ScriptedModel.saying(Stall(Answer("Working")))
    async with open_account_server(tmp_path, model) as server:
        ann = await server.set_up()
        bob = await server.join(ann, role="admin")
        await bob.post("/api/threads", json={"thread_id": "t"})
        method, body = ("POST", HI) if path.endswith("runs/stream") else ("GET", None)
        async with asyncio.timeout(10), bob.stream(method, path, json=body) as answer:
            assert answer.status_code == 200
            other = await server.create_token(ann)
            revoked = asyncio.create_task(revoke(server, ann, bob))
            await revoked
            began = perf_counter()
            async for _ in answer.aiter_raw():
                pass
            took = perf_counter() - began
        assert took <= LIMIT_S
        assert (await server.program(other[0]).get(f"{AUTH}/me")).status_code == 200


async def test_only_the_streams_of_a_revoked_token_end(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        await ann.post("/api/threads", json={"thread_id": "t"})
        (one, one_id), (two, _) = await server.create_token(ann), await server.create_token(ann)
        path = "/api/threads/t/stream"
        async with (
            asyncio.timeout(10),
            server.program(two).stream("GET", path) as kept,
            server.program(one).stream("GET", path) as ended,
        ):
            assert (await ann.delete(f"{AUTH}/tokens/{one_id}")).status_code == 204
            async for _ in ended.aiter_raw():
                pass
            await ann.post("/api/threads/t/runs", json=HI)
            assert b"event:" in await anext(kept.aiter_raw())


async def test_no_request_is_watched_after_its_end(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        await ann.post("/api/threads", json={"thread_id": "t"})
        for _ in range(5):
            await ann.get("/api/threads/t")
            async with ann.stream("GET", "/api/threads/t/stream"):
                pass
        async with asyncio.timeout(5):
            while server.harness.resources.authenticator.open_requests:
                await ann.get("/health")


async def test_a_request_that_two_checks_revoke_at_once_ends() -> None:
    credential = Credential("session", "s", Principal("ann"))
    request = GuardedRequest(credential, "hash", asyncio.Event().wait)  # type: ignore[arg-type]  # it never receives
    receiving = asyncio.create_task(request.receive())
    await asyncio.sleep(0)
    request.revoke()
    request.revoke()
    async with asyncio.timeout(5):
        assert await receiving == {"type": "http.disconnect"}
