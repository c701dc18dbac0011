"""The audit log over HTTP, and reads of other people's threads by administrators."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import orjson

from deerflow.persistence.queries.audit import AuditFilter
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.gateway.account_server import ADMIN, AUTH, USER, AccountServer, open_account_server, try_login

MESSAGES = "/api/admin/threads/{}/messages"
HI = {"input": {"messages": [{"type": "human", "content": "About herons."}]}}
AGENT = {"name": "scribe", "description": "Writes.", "soul": "You write."}
SKILL = "---\nname: greeter\ndescription: Greets.\n---\n# Greeter\n\nSay hello.\n"


async def list_kinds(http: httpx.AsyncClient, **wanted: str) -> list[tuple[str, str]]:
    """Return kind and outcome of the entries, oldest first."""
    answer = await http.get("/api/audit", params=wanted)
    assert answer.status_code == 200, answer.text
    return [(each["kind"], each["outcome"]) for each in reversed(answer.json()["entries"])]


async def find_details(http: httpx.AsyncClient, kind: str) -> list[Mapping[str, Any]]:
    """Return the details of entries, oldest first."""
    answer = await http.get("/api/audit", params={"kind": kind})
    return [each["details"] for each in reversed(answer.json()["entries"])]


async def test_the_log_is_for_administrators_and_can_be_filtered_and_paged(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        await try_login(server.browser(), USER, "not the password")
        for path in ("", "/head", "/verify", "/export"):
            assert (await bob.get(f"/api/audit{path}")).status_code == 403
        bobs_id = (await bob.get(f"{AUTH}/me")).json()["id"]
        created, login, failed = (
            ("account.created", "success"),
            ("account.login", "success"),
            ("account.login", "failure"),
        )
        assert await list_kinds(ann) == [created, login, ("account.invited", "success"), created, login, failed]
        assert await list_kinds(ann, person=bobs_id) == [created, login, failed]
        assert await list_kinds(ann, person=bobs_id, kind="account.login") == [login, failed]
        first = (await ann.get("/api/audit", params={"limit": 4})).json()
        rest = (await ann.get("/api/audit", params={"limit": 4, "before": first["next"]})).json()
        assert [each["seq"] for each in [*first["entries"], *rest["entries"]]] == [6, 5, 4, 3, 2, 1]
        assert rest["next"] is None
        assert first["entries"][0]["subject"] == {"id": bobs_id, "email": USER}
        assert (await ann.get("/api/audit", params={"before": 0})).status_code == 422


async def test_the_log_is_verified_and_exported(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        head = (await ann.get("/api/audit/head")).json()["head"]
        await ann.post(f"{AUTH}/tokens", json={"name": "laptop", "scope": "run"})
        report = (await ann.get("/api/audit/verify", params={"head": head})).json()
        assert (report["is_valid"], report["entries"], report["problems"]) == (True, 3, [])
        wrong = (await ann.get("/api/audit/verify", params={"head": f"2:{'0' * 64}"})).json()
        assert not wrong["is_valid"] and wrong["problems"][0]["seq"] == 2
        assert (await ann.get("/api/audit/verify", params={"head": "2"})).status_code == 422
        exported = await ann.get("/api/audit/export")
        lines = [orjson.loads(line) for line in exported.content.splitlines()]
        assert [line["kind"] for line in lines] == ["account.created", "account.login", "account.token_created"]
        assert (await ann.get("/api/audit/export", params={"from": "2100-01-01T00:00:00Z"})).content == b""


async def test_changes_of_the_configuration_and_deletions_are_recorded(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, sharing={"enabled": True}) as server:
        ann = await server.set_up()
        done = [
            await ann.post("/api/agents", json=AGENT),
            await ann.put("/api/agents/scribe", json={"description": "Writes more."}),
            await ann.delete("/api/agents/scribe"),
            await ann.post("/api/skills/custom", json={"content": SKILL}),
            await ann.put("/api/skills/greeter", json={"enabled": False}),
            await ann.put("/api/mcp/servers/notes", json={"type": "http", "url": "http://127.0.0.1:9/mcp"}),
            await ann.post("/api/mcp/cache/reset"),
            await ann.post(
                "/api/model-connections",
                json={
                    "provider": "custom",
                    "base_url": "http://127.0.0.1:9/v1",
                    "key": "sk-kingfisher",
                    "models": [{"model": "local"}],
                },
            ),
            await ann.post("/api/threads", json={"thread_id": "t"}),
            await ann.post("/api/threads/t/shares", json={}),
            await ann.delete("/api/threads/t"),
        ]
        assert [each.status_code for each in done if not each.is_success] == []
        project = (await ann.post("/api/projects", json={"name": "Birds"})).json()["project_id"]
        assert (await ann.delete(f"/api/projects/{project}")).is_success
        refused = await ann.post("/api/agents", json={**AGENT, "name": "not a name"})
        assert refused.status_code == 422
        kinds = [kind for kind, _ in await list_kinds(ann)][2:]
        assert kinds == [
            *["configuration.agent"] * 3,
            *["configuration.skill"] * 2,
            "configuration.mcp",
            "configuration.model",
            "configuration.share",
            "data.thread_deleted",
            "data.project_deleted",
        ]
        agents = await find_details(ann, "configuration.agent")
        assert agents[0] == {"action": "create_agent", "name": "scribe"}
        assert (await find_details(ann, "configuration.mcp"))[0]["server"] == "notes"
        assert "kingfisher" not in (await ann.get("/api/audit/export")).text


async def test_approvals_and_calls_that_reach_outside_are_recorded(tmp_path: Path) -> None:
    model = ScriptedModel.saying(
        calling("web_fetch", url="http://127.0.0.1:9/a"), calling("ls", path="/mnt/user-data/workspace"), "Done."
    )
    use = "deerflow.community.web_fetch.tools:web_fetch_tool"
    fetch = {"name": "web_fetch", "group": "web", "use": use, "approval": "always"}
    async with open_account_server(tmp_path, model, tools=[fetch]) as server:
        ann = await server.set_up()
        await ann.post("/api/threads", json={"thread_id": "t"})
        await ann.post("/api/threads/t/runs/wait", json=HI)
        decided = {"command": {"resume": {"decisions": [{"type": "approve", "scope": "thread"}]}}}
        assert (await ann.post("/api/threads/t/runs/wait", json=decided)).is_success
        found = [each for each in await list_kinds(ann) if each[0].startswith("run.")]
        assert found == [("run.approval", "approve"), ("run.tool_call", "failure")]
        approval, call = [*await find_details(ann, "run.approval"), *await find_details(ann, "run.tool_call")]
        assert (approval["tool"], approval["scope"]) == ("web_fetch", "thread")
        assert (call["tool"], call["thread"]) == ("web_fetch", "t")


async def test_a_server_without_accounts_records_nothing(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, requires_login=False) as server:
        http = server.program()
        await http.post("/api/threads", json={"thread_id": "t"})
        await http.post("/api/threads/t/runs/wait", json=HI)
        await http.post("/api/agents", json=AGENT)
        await http.delete("/api/threads/t")
        assert await list_kinds(http) == []


async def open_browsers(server: AccountServer) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    """Return the browsers of an administrator, and of a person with a thread."""
    ann = await server.set_up()
    bob = await server.join(ann)
    await bob.post("/api/threads", json={"thread_id": "bobs"})
    assert (await bob.post("/api/threads/bobs/runs/wait", json=HI)).is_success
    return ann, bob


async def test_administrators_read_threads_of_others_only_with_a_reason_that_the_person_sees(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann, bob = await open_browsers(server)
        assert (await bob.get(f"{AUTH}/admin-access")).json() == []
        assert (await ann.get("/api/threads/bobs/messages")).status_code == 404
        assert (await ann.get(MESSAGES.format("bobs"))).status_code == 422
        assert (await ann.get(MESSAGES.format("none"), params={"reason": "support"})).status_code == 404
        assert (await bob.get(MESSAGES.format("bobs"), params={"reason": "support"})).status_code == 403
        page = await ann.get(MESSAGES.format("bobs"), params={"reason": "support request 17"})
        assert [each["message"]["content"] for each in page.json()["data"]] == ["About herons.", "Hello."]
        (seen,) = (await bob.get(f"{AUTH}/admin-access")).json()
        assert (seen["by"], seen["thread_id"], seen["reason"]) == (ADMIN, "bobs", "support request 17")
        assert (await ann.get(f"{AUTH}/admin-access")).json() == []
        entries = await server.harness.resources.audit.list(AuditFilter(kind="data.thread_read"))
        assert len(entries) == 1


async def test_deleting_a_person_deletes_what_they_have(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann, bob = await open_browsers(server)
        bobs_id = (await bob.get(f"{AUTH}/me")).json()["id"]
        assert (await ann.get(MESSAGES.format("bobs"), params={"reason": "support"})).is_success
        assert (await bob.delete(f"{AUTH}/users/{bobs_id}")).status_code == 403
        assert (await ann.delete(f"{AUTH}/users/{bobs_id}")).status_code == 204
        assert (await bob.get(f"{AUTH}/me")).status_code == 401
        assert (await ann.get(MESSAGES.format("bobs"), params={"reason": "support"})).status_code == 404
        assert (await ann.delete(f"{AUTH}/users/{bobs_id}")).status_code == 404
        me = (await ann.get(f"{AUTH}/me")).json()["id"]
        assert (await ann.delete(f"{AUTH}/users/{me}")).status_code == 409
        (entry,) = (await ann.get("/api/audit", params={"kind": "data.thread_read"})).json()["entries"]
        assert (entry["details"], entry["is_erased"], entry["subject"]["email"]) == ({}, True, None)
        assert (await ann.get("/api/audit/verify")).json()["is_valid"]


async def test_deleting_a_person_stops_their_runs(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer("Working")))
    async with open_account_server(tmp_path, model) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        bobs_id = (await bob.get(f"{AUTH}/me")).json()["id"]
        await bob.post("/api/threads", json={"thread_id": "bobs"})
        assert (await bob.post("/api/threads/bobs/runs", json=HI)).is_success
        assert len(server.harness.runs.active_runs()) == 1
        assert (await ann.delete(f"{AUTH}/users/{bobs_id}")).status_code == 204
        assert not server.harness.runs.active_runs()
        assert (await ann.post("/api/threads", json={"thread_id": "bobs"})).is_success  # the id is free again
