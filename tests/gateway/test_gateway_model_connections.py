"""Model connections over HTTP: checked, saved with an encrypted key, used by runs and removed."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.gateway.app import create_app
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedServer, Stall
from tests.canary import capture_all_logs, files_with
from tests.models.checked_servers import KEY, answer_check, capable_server
from tests.support import browse

LIMIT_S = 60
OFF: Mapping[str, Any] = {"suggestions": {"enabled": False}, "memory": {"enabled": False}, "title": {"enabled": False}}


@asynccontextmanager
async def serve(home: Path, **settings: Any) -> AsyncIterator[tuple[Harness, httpx.AsyncClient]]:
    """Yield a harness without a configured model, and a client of its server."""
    source = open_source(directory=home, environment={}, overrides={**OFF, **settings})
    async with asyncio.timeout(LIMIT_S), open_harness(source) as harness, browse(harness) as http:
        yield harness, http


def body_of(server: ScriptedServer, *models: str, key: str | None = KEY) -> dict[str, Any]:
    chosen = [{"model": model} for model in models or ("gpt-5-mini",)]
    return {"provider": "custom", "base_url": server.base_url, "key": key, "models": chosen}


async def ask(http: httpx.AsyncClient, text: str = "Hi", thread: str = "t", **configurable: Any) -> str:
    body = {"input": {"messages": [{"type": "human", "content": text}]}, "config": {"configurable": configurable}}
    return (await http.post(f"/api/threads/{thread}/runs/wait", json=body)).text


async def names(http: httpx.AsyncClient) -> list[str]:
    return [model["name"] for model in (await http.get("/api/models")).json()["models"]]


async def test_a_checked_and_saved_model_answers_the_next_message(tmp_path: Path) -> None:
    async with capable_server() as server, serve(tmp_path) as (_, http):
        assert await names(http) == ["demo"]
        check = (await http.post("/api/model-connections/check", json=body_of(server))).json()
        assert check["works"] and check["tested"] == "gpt-5-mini" and check["problems"] == []
        assert check["observed"] == {
            "answer": True, "streaming": True, "tools": True, "usage": True, "reasoning": None
        }  # fmt: skip
        saved = (await http.post("/api/model-connections", json=body_of(server))).json()
        assert (saved["key"], [model["name"] for model in saved["models"]]) == ("set", ["gpt-5-mini"])
        assert await names(http) == ["gpt-5-mini"]
        card = (await http.get("/api/models/gpt-5-mini")).json()
        assert (card["supports_vision"], card["key"], card["scripted"]) == (True, "set", False)
        assert "1 2 3 4" in await ask(http)
        assert server.requests[-1].headers["Authorization"] == f"Bearer {KEY}"


async def test_a_connection_without_a_model_or_with_a_bad_address_is_rejected(tmp_path: Path) -> None:
    async with serve(tmp_path) as (_, http):
        good = {"provider": "openai", "models": [{"model": "gpt-5"}]}
        for change in (
            {"models": []},
            {"models": [{"model": " "}]},
            {"provider": "nobody"},
            {"provider": "custom"},
            {"base_url": "ftp://models.example"},
            {"base_url": "http://169.254.169.254/v1"},
            {"base_url": "http://[fd00:ec2::254]/v1"},
            {"key": "sk-\nline"},
        ):
            response = await http.post("/api/model-connections", json=good | change)
            assert response.status_code == 422, change
            assert response.json()["error"] in ("InvalidRequest", "AddressRefused"), change
        assert (await http.get("/api/model-connections")).json() == {"connections": []}
        assert await names(http) == ["demo"]
        checked = (
            await http.post("/api/model-connections/check", json={"provider": "custom", "base_url": "x y"})
        ).json()
        assert [problem["code"] for problem in checked["problems"]] == ["invalid_address"]


async def test_models_in_config_yaml_win_and_the_file_is_never_written(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    async with ScriptedServer(["From the file."], endless=True) as other, capable_server() as server:
        entry = other.model_config("gpt-5-mini").model_dump(mode="json", exclude_unset=True) | {"api_key": "k"}
        config.write_text(f"# mine\nmodels: [{entry}]\n")
        before = config.read_bytes()
        async with serve(tmp_path) as (_, http):
            saved = (await http.post("/api/model-connections", json=body_of(server, "gpt-5-mini", "second"))).json()
            assert [model["is_shadowed"] for model in saved["models"]] == [True, False]
            assert await names(http) == ["gpt-5-mini", "second"]
            assert "From the file." in await ask(http)
            assert server.requests == []
            assert "1 2 3 4" in await ask(http, thread="u", model_name="second")
            await http.delete(f"/api/model-connections/{saved['connection_id']}")
            assert await names(http) == ["gpt-5-mini"]
        assert config.read_bytes() == before


async def test_two_tabs_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    async with capable_server() as server, serve(tmp_path) as (_, http):
        wanted = [body_of(server, f"m{number}", key=f"{KEY}-{number}") for number in range(6)]
        answers = await asyncio.gather(*(http.post("/api/model-connections", json=body) for body in wanted))
        assert {answer.status_code for answer in answers} == {200}
        (connection,) = (await http.get("/api/model-connections")).json()["connections"]
        assert sorted(model["name"] for model in connection["models"]) == [f"m{number}" for number in range(6)]
        assert sorted(await names(http)) == [f"m{number}" for number in range(6)]
        await ask(http)
        assert set(server.rejected_keys) <= {body["key"] for body in wanted}  # one of them won


async def test_a_new_key_replaces_the_old_one_and_saving_without_a_key_keeps_it(tmp_path: Path) -> None:
    async with capable_server() as server, serve(tmp_path) as (_, http):
        saved = (await http.post("/api/model-connections", json=body_of(server, key="sk-old-canary-11"))).json()
        again = (await http.post("/api/model-connections", json=body_of(server, "second", key=None))).json()
        assert again["connection_id"] == saved["connection_id"] and len(again["models"]) == 2
        path = f"/api/model-connections/{saved['connection_id']}"
        failed = (await http.post(f"{path}/check", json={})).json()
        assert [problem["code"] for problem in failed["problems"]] == ["bad_key"]
        assert (await http.put(f"{path}/key", json={"key": ""})).status_code == 422
        assert (await http.put(f"{path}/key", json={"key": f' "{KEY}" '})).json()["key"] == "set"
        assert (await http.post(f"{path}/check", json={})).json()["works"]
        assert "1 2 3 4" in await ask(http)
        for method, url in (("PUT", "/api/model-connections/x/key"), ("DELETE", "/api/model-connections/x")):
            assert (await http.request(method, url, json={"key": "k"})).status_code == 404


async def test_models_are_removed_one_by_one_and_the_key_with_the_last(tmp_path: Path) -> None:
    async with capable_server() as server, serve(tmp_path) as (_, http):
        await http.post("/api/model-connections", json=body_of(server, "vendor/one", "two"))
        assert (await http.delete("/api/saved-models/vendor/one")).status_code == 204
        assert (await http.delete("/api/saved-models/vendor/one")).status_code == 404
        assert await names(http) == ["two"]
        assert (await http.delete("/api/saved-models/two")).status_code == 204
        assert (await http.get("/api/model-connections")).json() == {"connections": []}
        assert await names(http) == ["demo"]
    with closing(sqlite3.connect(find_database(tmp_path))) as rows:
        assert rows.execute("SELECT count(*) FROM model_connections").fetchone() == (0,)


def find_database(home: Path) -> Path:
    return next(path for path in home.rglob("*.db") if "checkpoint" not in path.name)


async def test_the_key_is_in_no_answer_event_log_export_or_file(tmp_path: Path) -> None:
    with capture_all_logs() as logs:
        async with capable_server() as server, serve(tmp_path) as (_, http):
            answers = [
                (await http.post("/api/model-connections/check", json=body_of(server))).text,
                (await http.post("/api/model-connections/check", json=body_of(server, key=f"{KEY}-bad"))).text,
                (await http.post("/api/model-connections", json=body_of(server))).text,
                (await http.post("/api/model-connections", json=body_of(server, key=[KEY]) | {"x": KEY})).text,  # type: ignore[arg-type]
                await ask(http),
            ]
            (connection,) = (await http.get("/api/model-connections")).json()["connections"]
            await http.put(f"/api/model-connections/{connection['connection_id']}/key", json={"key": f"{KEY}-worse"})
            answers.append(await ask(http, thread="u"))
            runs = (await http.get("/api/threads/u/runs")).json()
            for path in (
                "models", "model-connections", "model-providers", "features", "threads/t/export?format=json",
                "threads/t/messages", f"threads/u/runs/{runs[0]['run_id']}/events", "threads/u/state",
            ):  # fmt: skip
                response = await http.get(f"/api/{path}")
                assert response.status_code == 200, path
                answers.append(response.text)
        assert {f"{KEY}-bad", f"{KEY}-worse"} <= set(server.rejected_keys)  # it was quoted in errors
    assert [answer[:80] for answer in answers if KEY in answer] == []
    assert KEY not in logs.getvalue()
    assert files_with(KEY, tmp_path) == []


async def test_a_run_in_progress_keeps_the_model_it_began_with(tmp_path: Path) -> None:
    async with ScriptedServer([Stall(), answer_check], endless=True) as server, serve(tmp_path) as (_, http):
        saved = (await http.post("/api/model-connections", json=body_of(server, "scripted"))).json()
        running = asyncio.create_task(ask(http))
        await server.waiting.wait()
        await http.delete(f"/api/model-connections/{saved['connection_id']}")
        assert await names(http) == ["demo"]
        server.release()
        assert "error" not in (await running)[:20]
        assert "demo model" in await ask(http, "Who are you?", thread="u")


async def test_another_process_on_the_same_database_sees_a_saved_model(tmp_path: Path) -> None:
    async with capable_server() as server, serve(tmp_path) as (_, http), serve(tmp_path) as (_, other):
        assert await names(other) == ["demo"]
        await http.post("/api/model-connections", json=body_of(server))
        assert "1 2 3 4" in await ask(other)
        assert await names(other) == ["gpt-5-mini"]
        await http.delete("/api/saved-models/gpt-5-mini")
        assert await names(other) == ["demo"]


async def test_saved_models_survive_a_restart_and_a_lost_key_file_is_reported(tmp_path: Path) -> None:
    async with capable_server() as server:
        async with serve(tmp_path) as (_, http):
            await http.post("/api/model-connections", json=body_of(server))
        async with serve(tmp_path) as (harness, http):
            assert "1 2 3 4" in await ask(http)
            key_file = harness.core.home / "mcp.key"
        key_file.unlink()
        async with serve(tmp_path) as (_, http):
            (connection,) = (await http.get("/api/model-connections")).json()["connections"]
            assert connection["key"] == "unreadable"
            await http.put(f"/api/model-connections/{connection['connection_id']}/key", json={"key": KEY})
            assert "1 2 3 4" in await ask(http, thread="u")


async def test_other_users_do_not_see_a_saved_model_and_may_not_use_private_addresses(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides=dict(OFF))
    async with asyncio.timeout(LIMIT_S), capable_server() as server, open_harness(source) as harness:
        app = create_app(harness)
        who = [LOCAL_USER]
        app.state.identify = lambda _request: who[0]
        async with browse(harness, app) as http:
            saved = (await http.post("/api/model-connections", json=body_of(server))).json()
            who[0] = type(LOCAL_USER)("mallory")
            assert await names(http) == ["demo"]
            assert (await http.get("/api/models/gpt-5-mini")).status_code == 404
            assert (await http.get("/api/model-connections")).json() == {"connections": []}
            path = f"/api/model-connections/{saved['connection_id']}"
            for method, url in (("PUT", f"{path}/key"), ("DELETE", path), ("POST", f"{path}/check")):
                assert (await http.request(method, url, json={"key": "k"})).status_code == 404
            assert (await http.delete("/api/saved-models/gpt-5-mini")).status_code == 404
            refused = (await http.post("/api/model-connections/check", json=body_of(server))).json()
            assert [problem["code"] for problem in refused["problems"]] == ["blocked_address"]
            assert (await http.post("/api/model-connections", json=body_of(server))).status_code == 422
            assert "demo model" in await ask(http, "Who are you?", thread="m")
    assert server.requests == []


async def test_providers_name_their_key_pages_and_local_servers_are_found(tmp_path: Path) -> None:
    async with ScriptedServer(models=["llama3", "nomic-embed"]) as server:
        port = server.base_url.split(":")[2].removesuffix("/v1")
        source = open_source(directory=tmp_path, environment={"OLLAMA_HOST": f"127.0.0.1:{port}"}, overrides=dict(OFF))
        async with asyncio.timeout(LIMIT_S), open_harness(source) as harness, browse(harness) as http:
            found = (await http.get("/api/model-providers")).json()
    titles = [provider["title"] for provider in found["providers"]]
    assert titles[:8] == ["OpenAI", "Anthropic", "Google", "DeepSeek", "Qwen", "Kimi", "Doubao", "OpenRouter"]
    for provider in found["providers"]:
        assert (provider["key_url"] or "https://").startswith("https://")
        assert (provider["base_url"] is None) == (provider["id"] in ("ollama", "lmstudio", "vllm", "custom"))
    ollama = next(each for each in found["local"] if each["provider"] == "ollama")
    assert ollama == {"provider": "ollama", "title": "Ollama", "base_url": server.base_url, "model_count": 1}
