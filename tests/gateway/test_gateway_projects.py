"""Projects over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import Principal
from deerflow.domain.projects import project_scope
from deerflow.gateway.app import create_app
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.gateway.populated_server import USER_HEADER, read_principal
from tests.support import browse

OTHER = {USER_HEADER: "mallory"}
WAIT_S = 30.0


@asynccontextmanager
async def open_server(
    home: Path, model: ScriptedModel | None = None, **settings: object
) -> AsyncIterator[tuple[Harness, httpx.AsyncClient]]:
    source = open_source(directory=home, environment={}, overrides={"title": {"enabled": False}, **settings})
    async with open_harness(source, model or ScriptedModel.saying()) as harness:
        app = create_app(harness)
        app.state.identify = read_principal
        async with browse(harness, app) as http:
            yield harness, http


async def create(http: httpx.AsyncClient, name: str = "Bridge", **more: str) -> str:
    answer = await http.post("/api/projects", json={"name": name, **more})
    assert answer.status_code == 201, answer.text
    project_id: str = answer.json()["project_id"]
    return project_id


async def add(http: httpx.AsyncClient, project_id: str, *files: tuple[str, bytes]) -> list[dict[str, Any]]:
    parts = [("files", (name, content)) for name, content in files]
    answer = await http.post(f"/api/projects/{project_id}/files", files=parts)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["files"]
    return found


async def wait_until_indexed(http: httpx.AsyncClient, project_id: str) -> dict[str, dict[str, Any]]:
    """Return the files by name when none waits any more."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = (await http.get(f"/api/projects/{project_id}/files")).json()["files"]
            if all(file["state"] in ("ready", "failed") for file in found):
                return {file["name"]: file for file in found}


async def ask(http: httpx.AsyncClient, thread_id: str, text: str = "hello") -> str:
    body = {"input": {"messages": [{"role": "user", "content": text}]}, "if_not_exists": "create"}
    answer = await http.post(f"/api/langgraph/threads/{thread_id}/runs/stream", json=body)
    assert "event: end" in answer.text
    return answer.text


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"name": ""}, "name"),
        ({"name": "   "}, "a project name has 1 to 200 characters"),
        ({"name": "x" * 201}, "name"),
        ({"name": "x", "instructions": "y" * 20_001}, "instructions"),
        ({"name": "x", "color": "red"}, "color"),
    ],
)
async def test_refuses_invalid_projects(tmp_path: Path, body: dict[str, str], complaint: str) -> None:
    async with open_server(tmp_path) as (_, http):
        answer = await http.post("/api/projects", json=body)
        assert answer.status_code == 422 and complaint in answer.text
        assert (await http.get("/api/projects")).json() == {"projects": []}


async def test_hides_a_project_and_its_files_from_other_users(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (_, http):
        project_id = await create(http)
        (file,) = await add(http, project_id, ("plan.md", b"# Plan"))
        await http.put(f"/api/projects/{project_id}/threads/t1")
        base, one = f"/api/projects/{project_id}", f"/api/projects/{project_id}/files/{file['file_id']}"
        requests = [
            ("GET", base, None),
            ("PATCH", base, {"name": "mine"}),
            ("DELETE", base, None),
            ("PUT", f"{base}/threads/t2", None),
            ("DELETE", f"{base}/threads/t1", None),
            ("GET", f"{base}/files", None),
            ("GET", one, None),
            ("GET", f"{one}/content", None),
            ("GET", f"{one}/passages", None),
            ("POST", f"{one}/retry", None),
            ("DELETE", one, None),
            ("POST", f"{base}/search", {"query": "plan"}),
            ("GET", f"/api/memory?project={project_id}", None),
        ]
        for method, path, body in requests:
            answer = await http.request(method, path, json=body, headers=OTHER)
            assert answer.status_code == 404, (method, path, answer.text)
        assert (await http.get("/api/projects", headers=OTHER)).json() == {"projects": []}
        assert (await http.get(base)).json()["files"] == 1


async def test_renames_a_project_and_changes_its_instructions(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (_, http):
        project_id = await create(http)
        renamed = (await http.patch(f"/api/projects/{project_id}", json={"name": " New  name "})).json()
        changed = (await http.patch(f"/api/projects/{project_id}", json={"instructions": "Be brief."})).json()
        assert renamed["name"] == "New name"
        assert (changed["name"], changed["instructions"]) == ("New name", "Be brief.")


async def test_moves_threads_into_and_out_of_projects(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (_, http):
        first, second = await create(http, "A"), await create(http, "B")
        await http.post("/api/threads", json={"thread_id": "plain"})
        assert (await http.put(f"/api/projects/{first}/threads/t1")).status_code == 204
        assert (await http.put(f"/api/projects/{second}/threads/t1")).status_code == 204

        async def listed(project: str) -> list[str]:
            found = (await http.post("/api/threads/search", json={"project_id": project})).json()
            return [thread["thread_id"] for thread in found]

        assert await listed(first) == [] and await listed(second) == ["t1"] and await listed("") == ["plain"]
        assert (await http.get("/api/threads/t1")).json()["project_id"] == second
        copied = (await http.post("/api/threads/t1/copy", json={})).json()
        assert copied["project_id"] == second
        await http.delete(f"/api/projects/{first}/threads/t1")  # it is in the other one
        assert "t1" in await listed(second)
        await http.delete(f"/api/projects/{second}/threads/t1")
        assert "t1" in await listed("")


async def test_refuses_to_move_a_busy_thread(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer("Half")))
    async with open_server(tmp_path, model) as (_, http):
        project_id = await create(http)
        body = {"input": {"messages": [{"role": "user", "content": "x"}]}, "if_not_exists": "create"}
        run = (await http.post("/api/langgraph/threads/t1/runs", json=body)).json()
        answer = await http.put(f"/api/projects/{project_id}/threads/t1")
        assert (answer.status_code, answer.json()["error"]) == (409, "Conflict")
        await http.post(f"/api/langgraph/threads/t1/runs/{run['run_id']}/cancel?wait=true")


async def test_runs_get_the_instructions_of_their_project_once(tmp_path: Path) -> None:
    model = ScriptedModel.saying("one", "two", "three")
    async with open_server(tmp_path, model) as (_, http):
        project_id = await create(http, instructions="Answer in verse.")
        await http.put(f"/api/projects/{project_id}/threads/t1")
        await ask(http, "t1", "first")
        await ask(http, "t1", "second")
        await http.patch(f"/api/projects/{project_id}", json={"instructions": ""})
        await ask(http, "t1", "third")

    texts = [[str(message.content) for message in call.messages] for call in model.requests]
    assert [sum("Answer in verse." in text for text in call) for call in texts] == [1, 1, 1]
    # What was sent stays a prefix of what is sent next, so that providers can cache it.
    assert texts[1][: len(texts[0])] == texts[0] and texts[2][: len(texts[1])] == texts[1]
    assert any("do not apply any longer" in text for text in texts[2])


async def test_a_thread_without_a_project_gets_neither_instructions_nor_the_search_tool(tmp_path: Path) -> None:
    model = ScriptedModel.saying("one")
    async with open_server(tmp_path, model) as (_, http):
        await create(http, instructions="Answer in verse.")
        await ask(http, "t1")
    (call,) = model.requests
    assert not any("verse" in str(message.content) for message in call.messages)
    assert "search_knowledge" not in str(call)


async def test_a_run_remembers_in_the_memory_of_its_project(tmp_path: Path) -> None:
    add_fact = calling("memory_add", content="The bridge is 40 m long.", category="context", confidence=0.9)
    model = ScriptedModel.saying(add_fact, "noted", add_fact, "noted")
    async with open_server(tmp_path, model, memory={"mode": "tool"}) as (harness, http):
        project_id = await create(http)
        await http.put(f"/api/projects/{project_id}/threads/t1")
        await ask(http, "t1")
        facts = (await http.get(f"/api/memory?project={project_id}")).json()["facts"]
        assert [fact["content"] for fact in facts] == ["The bridge is 40 m long."]
        assert (await http.get("/api/memory")).json()["facts"] == []
        await ask(http, "t2")
        assert len((await http.get("/api/memory")).json()["facts"]) == 1
        state = await harness.resources.memory.read(project_scope("local", project_id))
        assert len(state.facts) == 1


@pytest.mark.slow
async def test_commands_see_the_files_of_their_project_and_cannot_change_them(tmp_path: Path) -> None:
    command = "cat /mnt/project/plan.md; echo x > /mnt/project/plan.md; ls /mnt/project"
    model = ScriptedModel.saying(
        calling("bash", description="look", command=command),
        "done",
        calling("bash", description="look", command=command),
        "done",
    )
    async with open_server(tmp_path, model) as (_, http):
        project_id = await create(http)
        await add(http, project_id, ("plan.md", b"build it high"))
        await http.put(f"/api/projects/{project_id}/threads/t1")
        inside = await ask(http, "t1")
        outside = await ask(http, "t2")
        (file,) = (await http.get(f"/api/projects/{project_id}/files")).json()["files"]
        content = await http.get(f"/api/projects/{project_id}/files/{file['file_id']}/content")
    assert "build it high" in inside and "Read-only file system" in inside
    assert "build it high" not in outside
    assert content.content == b"build it high"


@pytest.mark.slow
async def test_deleting_a_project_keeps_its_threads_and_purges_the_rest(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (harness, http):
        project_id = await create(http, "Secret-plan", instructions="Secret-words")
        await add(http, project_id, ("secret.md", b"Secret-content of the file"))
        await wait_until_indexed(http, project_id)
        await http.put(f"/api/projects/{project_id}/threads/t1")
        scope = project_scope("local", project_id)
        await harness.resources.memory.add_fact(scope, "Secret-fact")
        answer = await http.delete(f"/api/projects/{project_id}")
        assert answer.json() == {"threads": ["t1"]}
        assert (await http.get(f"/api/projects/{project_id}")).status_code == 404
        assert (await http.get("/api/threads/t1")).json()["project_id"] is None
        folder = tmp_path / ".deer-flow" / "users" / "local" / "projects" / project_id
        async with asyncio.timeout(WAIT_S):
            while any(folder.parent.iterdir()):
                await http.get("/api/projects")
        assert (await harness.resources.memory.read(scope)).facts == ()


async def test_refuses_more_files_than_a_project_may_have(tmp_path: Path) -> None:
    async with open_server(tmp_path, projects={"max_files": 2}) as (_, http):
        project_id = await create(http)
        await add(http, project_id, ("a.md", b"a"))
        parts = [("files", (name, b"x")) for name in ("b.md", "c.md")]
        answer = await http.post(f"/api/projects/{project_id}/files", files=parts)
        assert (answer.status_code, answer.json()["error"]) == (409, "Conflict")
        assert [file["name"] for file in (await http.get(f"/api/projects/{project_id}/files")).json()["files"]] == [
            "a.md"
        ]
        folder = tmp_path / ".deer-flow" / "users" / "local" / "projects" / project_id / "files"
        assert [file.name for file in folder.iterdir()] == ["a.md"]


async def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (harness, http):
        project_id = await create(http)
        await add(http, project_id, ("a.md", b"one"), ("a.md", b"two"))
        names = [file.name for file in await harness.resources.projects.list_files(project_id, Principal("local"))]
        assert names == ["a.md", "a_1.md"]
