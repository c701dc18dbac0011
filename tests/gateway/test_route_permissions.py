"""Permissions of every route of the OpenAPI document. A new route fails until it is in `route_permissions.txt`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from deerflow.gateway.examples import THREAD
from deerflow.testing import ScriptedModel
from tests.gateway.account_server import AUTH, USER, AccountServer, open_account_server
from tests.gateway.populated_server import Example, list_examples

pytestmark = pytest.mark.slow

TABLE = Path(__file__).with_name("route_permissions.txt")
KINDS = {
    "public": "needs no login",
    "read": "any valid session or token, also with the scope read",
    "write": "any session, and tokens with the scope run",
    "session": "sessions only: tokens cannot manage credentials",
    "admin": "administrators, and their tokens with the scope admin",
    "admin-read": "the same, for reading",
}
ENDS_SESSIONS = {f"POST {AUTH}/logout", f"POST {AUTH}/logout-everywhere"}
CHANGES_LOGIN = ENDS_SESSIONS | {f"POST {AUTH}/change-password"}
CHECKS_SECRETS = ("/login/local", "/passkeys/login", "POST /api/hooks/{hook_id}")
"""Ends of names of routes that answer 401 to a wrong password, passkey or signature."""
DENIED = (401, 403)


def read_table() -> dict[str, str]:
    lines = [line.rsplit(maxsplit=1) for line in TABLE.read_text().splitlines() if line]
    return {name.strip(): kind for name, kind in lines}


@dataclass
class Clients:
    """One client for each kind of caller."""

    server: AccountServer
    anonymous: httpx.AsyncClient
    owner: httpx.AsyncClient
    other: httpx.AsyncClient
    expired: httpx.AsyncClient
    revoked: httpx.AsyncClient
    reading: httpx.AsyncClient
    running: httpx.AsyncClient
    examples: list[Example]


@asynccontextmanager
async def open_clients(home: Path) -> AsyncIterator[Clients]:
    model = ScriptedModel.saying(*["Hello."] * 10_000)
    sandbox: dict[str, Any] = {"toolbox": {"enabled": False}}
    async with open_account_server(home, model, sandbox=sandbox, sharing={"enabled": True}) as server:
        owner = await server.set_up()
        other = await server.join(owner)
        expired = await server.log_in(USER)
        session = (await expired.get(f"{AUTH}/me")).json()["session_id"]
        assert (await other.delete(f"{AUTH}/sessions/{session}")).status_code == 204
        token, token_id = await server.create_token(other)
        await other.delete(f"{AUTH}/tokens/{token_id}")
        reading, running = [(await server.create_token(owner, scope))[0] for scope in ("read", "run")]
        assert (await owner.post("/api/threads", json={"thread_id": THREAD})).status_code == 200
        yield Clients(
            server=server,
            anonymous=server.program(),
            owner=owner,
            other=other,
            expired=expired,
            revoked=server.program(token),
            reading=server.program(reading),
            running=server.program(running),
            examples=list_examples(await asyncio.to_thread(server.app.openapi)),
        )


async def send(http: httpx.AsyncClient, example: Example) -> int:
    """Send an example and return the status; the body of the answer may be endless."""
    more: dict[str, Any] = {"params": dict(example.query)}
    if example.files:
        more["files"] = [(name, ("x.md", text)) for name, texts in example.files.items() for text in texts]
    elif example.body is not None:
        more |= {"content": orjson.dumps(example.body), "headers": {"content-type": "application/json"}}
    async with http.stream(example.method, example.url, **more) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()
        return answer.status_code


async def test_every_route_is_in_the_table(tmp_path: Path) -> None:
    async with open_clients(tmp_path) as clients:
        assert sorted(read_table()) == sorted(example.name for example in clients.examples)
    assert set(read_table().values()) <= KINDS.keys()


async def test_nothing_is_served_without_a_valid_credential(tmp_path: Path) -> None:
    table, wrong = read_table(), {}
    async with open_clients(tmp_path) as clients:
        for example in clients.examples:
            for name in ("anonymous", "expired", "revoked"):
                status = await send(getattr(clients, name), example)
                # A public route may refuse what it is asked, such as a password.
                if (status != 401) != (table[example.name] == "public") and not example.name.endswith(CHECKS_SECRETS):
                    wrong[f"{name}: {example.name}"] = status
    assert wrong == {}


async def test_tokens_reach_what_their_scope_allows(tmp_path: Path) -> None:
    table, wrong = read_table(), {}
    async with open_clients(tmp_path) as clients:
        for example in clients.examples:
            kind = table[example.name]
            if kind == "public":
                continue
            status = await send(clients.reading, example)
            if (status in DENIED) != (kind != "read"):
                wrong[f"reading: {example.name}"] = status
            if kind in ("session", "admin", "admin-read"):
                status = await send(clients.running, example)
                if status != 403:
                    wrong[f"running: {example.name}"] = status
    assert wrong == {}


async def test_a_user_is_refused_on_routes_of_administrators_alone(tmp_path: Path) -> None:
    table, wrong = read_table(), {}
    async with open_clients(tmp_path) as clients:
        for example in clients.examples:
            if table[example.name] == "public" or example.name in CHANGES_LOGIN:
                continue
            status = await send(clients.other, example)
            if (status == 403) != table[example.name].startswith("admin") or status >= 500:
                wrong[example.name] = status
            if "{thread_id}" in example.path and status != 404 and not table[example.name].startswith("admin"):
                wrong[example.name] = status
        assert (await clients.owner.get(f"/api/threads/{THREAD}")).status_code == 200
    assert wrong == {}


async def test_the_owner_is_refused_nothing(tmp_path: Path) -> None:
    table, wrong = read_table(), {}
    async with open_clients(tmp_path) as clients:
        last = [example for example in clients.examples if example.name in CHANGES_LOGIN]
        for example in [each for each in clients.examples if each.name not in CHANGES_LOGIN]:
            status = await send(clients.owner, example)
            if table[example.name] != "public" and status in DENIED:
                wrong[example.name] = status
        for example in last:
            status = await send(await clients.server.log_in(), example)
            # The current password in the example is not that of the owner.
            if status != (401 if example.name.endswith("change-password") else 204):
                wrong[example.name] = status
    assert wrong == {}
