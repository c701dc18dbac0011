"""Models that an administrator shares, the embedding model of the server, and addresses that change after a check."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.gateway.app import create_app
from deerflow.harness import Harness, open_harness
from deerflow.services.model_connections import ModelToSave
from deerflow.testing import ScriptedServer
from tests.canary import files_with
from tests.models.checked_servers import KEY, capable_server
from tests.support import browse

LIMIT_S = 60
MALLORY = Principal("mallory")
OFF: Mapping[str, Any] = {"suggestions": {"enabled": False}, "memory": {"enabled": False}, "title": {"enabled": False}}


@asynccontextmanager
async def serve(home: Path, **settings: Any) -> AsyncIterator[tuple[Harness, httpx.AsyncClient, list[Principal]]]:
    """Yield a harness, a client, and the user of the client, which the test may replace."""
    source = open_source(directory=home, environment={}, overrides={**OFF, **settings})
    async with asyncio.timeout(LIMIT_S), open_harness(source) as harness:
        app, who = create_app(harness), [LOCAL_USER]
        app.state.identify = lambda _request: who[0]
        async with browse(harness, app) as http:
            yield harness, http, who


def body_of(server: ScriptedServer, model: str = "gpt-5-mini") -> dict[str, Any]:
    return {"provider": "custom", "base_url": server.base_url, "key": KEY, "models": [{"model": model}]}


async def ask(http: httpx.AsyncClient, thread: str) -> str:
    body = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
    return (await http.post(f"/api/threads/{thread}/runs/wait", json=body)).text


async def names(http: httpx.AsyncClient) -> list[str]:
    return [model["name"] for model in (await http.get("/api/models")).json()["models"]]


async def test_only_an_administrator_shares_and_only_what_is_theirs(tmp_path: Path) -> None:
    async with capable_server() as server, serve(tmp_path) as (_, http, who):
        saved = (await http.post("/api/model-connections", json=body_of(server))).json()
        path = f"/api/model-connections/{saved['connection_id']}/shared"
        who[0] = MALLORY
        assert (await http.put(path, json={"shared": True})).status_code == 404
        public = {**body_of(server), "base_url": "https://93.184.215.14/v1"}
        own = (await http.post("/api/model-connections", json=public)).json()["connection_id"]
        assert (await http.put(f"/api/model-connections/{own}/shared", json={"shared": True})).status_code == 403
        who[0] = Principal("another", is_admin=True)
        assert (await http.put(path, json={"shared": True})).status_code == 404


async def test_a_shared_model_answers_others_who_see_neither_its_key_nor_its_address(tmp_path: Path) -> None:
    async with capable_server() as server, serve(tmp_path) as (_, http, who):
        saved = (await http.post("/api/model-connections", json=body_of(server))).json()
        # No login is required, so the page offers no sharing.
        assert (saved["is_shared"], saved["is_own"], saved["can_share"]) == (False, True, False)
        path = f"/api/model-connections/{saved['connection_id']}"
        assert (await http.put(f"{path}/shared", json={"shared": True})).json()["is_shared"] is True
        # Models that are added later are shared too.
        await http.post("/api/model-connections", json=body_of(server, "gpt-5"))

        who[0] = MALLORY
        assert await names(http) == ["gpt-5-mini", "gpt-5"]
        response = await http.get("/api/model-connections")
        (seen,) = response.json()["connections"]
        assert (seen["is_own"], seen["is_shared"], seen["base_url"]) == (False, True, "")
        assert KEY not in response.text and server.base_url not in response.text
        assert "1 2 3 4" in await ask(http, "m")
        assert server.requests[-1].headers["Authorization"] == f"Bearer {KEY}"
        for method, url in (("PUT", f"{path}/key"), ("DELETE", path), ("POST", f"{path}/check")):
            assert (await http.request(method, url, json={"key": "k"})).status_code == 404

        who[0] = LOCAL_USER
        await http.put(f"{path}/shared", json={"shared": False})
        who[0] = MALLORY
        assert await names(http) == ["demo"]


async def test_the_embedding_model_is_for_administrators_and_config_wins(tmp_path: Path) -> None:
    async with serve(tmp_path) as (_, http, who):
        who[0] = MALLORY
        local = {"provider": "minilm"}
        assert (await http.put("/api/embedding-model", json=local)).status_code == 403
        assert (await http.delete("/api/embedding-model")).status_code == 403
        found = (await http.get("/api/embedding-model")).json()
        assert (found["origin"], found["can_change"]) == (None, False)
        who[0] = LOCAL_USER
        assert (await http.put("/api/embedding-model", json={"provider": "nobody"})).status_code == 422
        without_model = {"provider": "custom", "base_url": "http://127.0.0.1:9/v1"}
        assert (await http.put("/api/embedding-model", json=without_model)).status_code == 422
    async with serve(tmp_path, knowledge={"embedding": {"provider": "minilm"}}) as (_, http, _):
        found = (await http.get("/api/embedding-model")).json()
        assert (found["origin"], found["model"], found["can_change"]) == ("config", "all-minilm-l6-v2", False)
        assert (await http.put("/api/embedding-model", json=local)).status_code == 409


async def test_an_embedding_model_is_checked_saved_used_and_removed(tmp_path: Path) -> None:
    async with ScriptedServer(models=["gpt-5", "nomic-embed-text"], key=KEY) as server:
        endpoint = {"provider": "custom", "base_url": server.base_url}
        async with serve(tmp_path) as (harness, http, _):
            refused = (await http.post("/api/embedding-model/check", json=endpoint)).json()
            assert (refused["problem"]["code"], refused["dimensions"]) == ("bad_key", None)
            check = (await http.post("/api/embedding-model/check", json={**endpoint, "key": KEY})).json()
            assert (check["models"], check["dimensions"]) == (["nomic-embed-text"], 256)
            body = {**endpoint, "key": KEY, "model": "nomic-embed-text"}
            saved = await http.put("/api/embedding-model", json=body)
            assert KEY not in saved.text and saved.json()["origin"] == "saved" and saved.json()["has_key"]
            assert harness.resources.projects.embedding_model == "nomic-embed-text"
        async with serve(tmp_path) as (harness, http, _):  # it is stored
            assert harness.resources.projects.embedding_model == "nomic-embed-text"
            again = (await http.post("/api/embedding-model/check", json=endpoint)).json()
            assert again["dimensions"] == 256  # with the saved key
            local = (await http.put("/api/embedding-model", json={"provider": "minilm"})).json()
            assert (local["provider"], local["has_key"]) == ("minilm", False)
            assert (await http.delete("/api/embedding-model")).json()["origin"] is None
            assert harness.resources.projects.embedding_model is None
    assert files_with(KEY, tmp_path) == []


async def test_a_name_that_gets_a_private_address_after_the_check_is_refused_by_the_run(tmp_path: Path) -> None:
    async def resolve(_host: str) -> list[str]:
        return ["93.184.215.14"]

    async with capable_server() as server, serve(tmp_path) as (harness, http, who):
        service = replace(harness.resources.model_connections, resolve=resolve)
        address = server.base_url.replace("127.0.0.1", "localhost")
        await service.save(MALLORY, "custom", address, KEY, [ModelToSave("gpt-5-mini")])
        check = await service.check(MALLORY, "custom", address, KEY, "gpt-5-mini")
        assert [problem.code for problem in check.problems] == ["blocked_address"]
        who[0] = MALLORY
        assert "1 2 3 4" not in await ask(http, "m")
    assert server.requests == []
