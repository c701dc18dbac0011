"""Server with three people, one of whom has a thread to share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from deerflow.testing import ScriptedModel
from tests.gateway.account_server import AUTH, USER, AccountServer, open_account_server

EVE = "eve@example.com"
SETTINGS: dict[str, Any] = {"sandbox": {"toolbox": {"enabled": False}}, "sharing": {"enabled": True}}


def named(answer: httpx.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json().get("error") if answer.status_code >= 400 else None


@dataclass
class People:
    """Ann, who has the thread `t`, and Bob and Eve, who are users."""

    server: AccountServer
    ann: httpx.AsyncClient
    bob: httpx.AsyncClient
    eve: httpx.AsyncClient
    model: ScriptedModel

    async def share(self, email: str = USER, access: str = "read", thread: str = "t") -> str:
        made = await self.ann.post(f"/api/threads/{thread}/grants", json={"email": email, "access": access})
        assert made.status_code == 200, made.text
        return str(made.json()["grant_id"])


@asynccontextmanager
async def open_people(home: Path, *replies: Any, **settings: Any) -> AsyncIterator[People]:
    model = ScriptedModel.saying(*(replies or ["Hello."] * 20))
    async with open_account_server(home, model, **{**SETTINGS, **settings}) as server:
        ann = await server.set_up()
        bob, eve = await server.join(ann), await server.join(ann, EVE)
        assert (await ann.post("/api/threads", json={"thread_id": "t"})).status_code == 200
        yield People(server, ann, bob, eve, model)


async def user_id(http: httpx.AsyncClient) -> str:
    return str((await http.get(f"{AUTH}/me")).json()["id"])
