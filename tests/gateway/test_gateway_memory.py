"""Memory over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.config.source import open_source
from deerflow.domain.memory import FactSource, MemoryScope, supersede_fact, upsert_fact
from deerflow.gateway.app import create_app
from deerflow.harness import Harness, open_harness
from deerflow.memory.service import JsonFileStorage
from deerflow.testing import ScriptedModel
from tests.canary import files_with
from tests.gateway.populated_server import USER_HEADER, read_principal
from tests.memory.support import make_fact
from tests.support import browse

LOCAL_SCOPE = MemoryScope("local")
OTHER = {USER_HEADER: "mallory"}


@asynccontextmanager
async def open_server(home: Path, **memory: object) -> AsyncIterator[tuple[Harness, httpx.AsyncClient]]:
    source = open_source(directory=home, environment={}, overrides={"memory": memory})
    async with open_harness(source, ScriptedModel.saying()) as harness:
        app = create_app(harness)
        app.state.identify = read_principal
        async with browse(harness, app) as http:
            yield harness, http


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "complaint"),
    [
        ("POST", "facts", {"content": " "}, 422, "a fact cannot be empty"),
        ("POST", "facts", {"content": "x", "category": "gossip"}, 422, "category"),
        ("POST", "facts", {"content": "x", "confidence": 2}, 422, "confidence"),
        ("POST", "facts?revision=7", {"content": "x"}, 409, "it is at 0, not at 7"),
        ("PATCH", "facts/fact_x", {"content": "x"}, 404, "no fact 'fact_x'"),
        ("DELETE", "facts/fact_x", None, 404, "no fact 'fact_x'"),
        ("DELETE", "facts/fact_x?keep_history=true", None, 404, "no fact 'fact_x'"),
        ("GET", "facts/%ff%ED%A0%80/why", None, 404, "no fact"),
        ("PUT", "summaries/user.gossip", {"summary": "x"}, 422, "key"),
        ("PUT", "summaries/user.workContext", {"summary": "x" * 20_001}, 422, "summary"),
        ("PUT", "summaries/user.workContext?revision=7", {"summary": "x"}, 409, "it is at 0, not at 7"),
        ("POST", "undo", {}, 422, "is required"),
        ("POST", "undo", {"change_id": "x", "group": "y"}, 422, "is required"),
        ("POST", "undo", {"group": "x"}, 404, "no change 'x'"),
        ("POST", "import", {"facts": [{}]}, 422, "invalid memory document: facts.0.content"),
        ("POST", "import", [], 422, "body"),
        ("DELETE", "threads/none", None, 404, "none"),
        ("GET", "?agent=nobody", None, 404, "there is no agent 'nobody'"),
        ("GET", "?agent=../x", None, 422, "an agent name"),
        ("GET", "?as_of=yesterday", None, 422, "as_of"),
        ("GET", "search?q=", None, 422, "q"),
    ],
)
def test_invalid_memory_requests_get_named_errors(
    server: Any, method: str, path: str, body: object, status: int, complaint: str
) -> None:
    with server.client("nobody-yet") as http:
        answer = http.request(method, f"/api/memory/{path}".replace("/?", "?"), json=body)
        assert answer.status_code == status and complaint in answer.json()["detail"], answer.text
        assert http.get("/api/memory").json()["revision"] == 0


async def test_facts_are_created_updated_explained_undone_and_erased(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (harness, http):
        made = (await http.post("/api/memory/facts", json={"content": "Likes kingfisher tea"})).json()
        (tea,) = made["facts"]
        assert (tea["category"], tea["confidence"], tea["source"]) == ("context", 0.5, "manual")
        again = await http.post("/api/memory/facts", json={"content": "likes  KINGFISHER tea"})
        assert again.status_code == 409 and tea["id"] in again.json()["detail"]

        corrected = await http.patch(f"/api/memory/facts/{tea['id']}", json={"confidence": 1, "category": "preference"})
        assert corrected.json()["facts"][0]["confidence"] == 1
        stale = await http.patch(f"/api/memory/facts/{tea['id']}?revision=1", json={"content": "Hates tea"})
        assert stale.status_code == 409
        then = await http.get("/api/memory", params={"as_of": made["lastUpdated"]})
        assert then.json()["facts"] == made["facts"]

        history = (await http.get("/api/memory/history?limit=1")).json()
        assert history["changes"][0]["kind"] == "fact_changed" and history["next_before"] == 2
        back = await http.post("/api/memory/undo", json={"change_id": history["changes"][0]["change_id"]})
        assert back.json()["facts"] == made["facts"]
        gone = await http.delete(f"/api/memory/facts/{tea['id']}?keep_history=true")
        assert gone.json()["facts"] == []
        why = (await http.get(f"/api/memory/facts/{tea['id']}/why")).json()
        assert [change["kind"] for change in why["changes"]] == ["fact_removed", "undone", "fact_changed", "fact_added"]
        await http.post("/api/memory/undo", json={"group": why["changes"][0]["group"]})
        found = (await http.get("/api/memory/search?q=a good tea")).json()["facts"]
        assert [hit["id"] for hit in found] == [tea["id"]]
        assert (await http.delete(f"/api/memory/facts/{tea['id']}")).json()["facts"] == []
        assert files_with("kingfisher", tmp_path) == []
        assert (await http.get(f"/api/memory/facts/{tea['id']}/why")).status_code == 404
        assert await harness.deletions.finish()


async def test_summaries_are_replaced_deleted_and_restored(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (_, http):
        for said in ("Teaches physics", ""):
            written = await http.put("/api/memory/summaries/user.workContext", json={"summary": f" {said} "})
            assert written.json()["user"]["workContext"]["summary"] == said
        newest = (await http.get("/api/memory/history")).json()["changes"][0]
        assert (newest["kind"], newest["actor"], newest["after"]) == ("summary_set", "user", None)
        back = (await http.post("/api/memory/undo", json={"change_id": newest["change_id"]})).json()
        assert back["user"]["workContext"]["summary"] == "Teaches physics"


async def test_pending_extractions_are_listed_for_their_owner(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (_, http):
        said = {"input": {"messages": [{"type": "human", "content": "I like tea"}]}}
        assert (await http.post("/api/threads/t1/runs/wait", json=said)).status_code == 200
        (waiting,) = (await http.get("/api/memory/status")).json()["pending"]
        assert waiting["thread_id"] == "t1" and not waiting["is_being_read"]
        assert datetime.fromisoformat(waiting["due_at"]) > datetime.now(UTC)
        assert (await http.get("/api/memory/status", headers=OTHER)).json()["pending"] == []


async def test_the_source_of_a_fact_is_explained_and_erased_with_its_thread(
    tmp_path: Path,
) -> None:
    async with open_server(tmp_path) as (harness, http):
        await http.post("/api/threads", json={"thread_id": "t1"})
        ledger = harness.resources.memory.ledger
        old, new = (
            make_fact("Lives in Rome", thread="t0"),
            make_fact("Lives in Oslo", thread="t1", source_error="I said Rome"),
        )
        await ledger.apply(LOCAL_SCOPE, [upsert_fact(old)], "model")
        await ledger.apply(LOCAL_SCOPE, supersede_fact(old, new, datetime.now(UTC)), "model")
        why = (await http.get(f"/api/memory/facts/{new.id}/why")).json()
        assert why["fact"]["learnedIn"] == {"thread_id": "t1", "message_id": "m1", "quote": "they said: Lives in Oslo"}
        assert [each["content"] for each in why["superseded"]] == ["Lives in Rome"]
        assert (await http.delete("/api/threads/t1")).status_code == 204
        document = (await http.get("/api/memory")).json()
        assert [(each["content"], each["source"]) for each in document["facts"]] == [
            ("Lives in Oslo", "deleted thread")
        ]
        assert files_with("they said: Lives in Oslo", tmp_path) == []
    async with open_server(tmp_path, forget_with_thread=True) as (harness, http):
        await http.post("/api/threads", json={"thread_id": "t2"})
        ledger = harness.resources.memory.ledger
        await ledger.apply(
            LOCAL_SCOPE, [upsert_fact(make_fact("Sails a kingfisher", source=FactSource("t2")))], "model"
        )
        assert (await http.delete("/api/threads/t2")).status_code == 204
        assert files_with("kingfisher", tmp_path) == []


async def test_erasing_memory_leaves_no_bytes_and_deleting_an_agent_erases_its_memory(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (harness, http):
        await http.post("/api/threads", json={"thread_id": "t1"})
        ledger = harness.resources.memory.ledger
        await ledger.apply(LOCAL_SCOPE, [upsert_fact(make_fact("Likes owls", thread="t0"))], "model")
        await ledger.apply(LOCAL_SCOPE, [upsert_fact(make_fact("Likes heron", thread="t1"))], "model")
        left = (await http.delete("/api/memory/threads/t1")).json()
        assert [each["content"] for each in left["facts"]] == ["Likes owls"]
        kept = (await http.delete("/api/memory?keep_history=true")).json()
        newest = (await http.get("/api/memory/history")).json()["changes"][0]
        assert kept["facts"] == [] and newest["kind"] == "fact_removed"
        assert (await http.post("/api/memory/undo", json={"group": newest["group"]})).json()["facts"] == left["facts"]
        assert (await http.delete("/api/memory")).json()["facts"] == []
        await http.post("/api/agents", json={"name": "helper", "description": "Helps.", "soul": "Kind."})
        assert (await http.post("/api/memory/facts?agent=helper", json={"content": "Keeps swifts"})).status_code == 200
        assert (await http.get("/api/memory")).json()["facts"] == []
        assert (await http.delete("/api/agents/helper")).status_code == 204
        assert [files_with(word, tmp_path) for word in ("owls", "heron", "swifts")] == [[], [], []]


async def test_erasure_blocked_by_a_reader_is_completed_with_the_next_deletion(tmp_path: Path) -> None:
    async def in_the_way() -> bool:
        return False

    async with open_server(tmp_path) as (harness, http):
        made = (await http.post("/api/memory/facts", json={"content": "Likes kingfishers"})).json()
        hindered = replace(harness.resources.memory.ledger, purge=in_the_way)
        assert not await hindered.erase_fact(LOCAL_SCOPE, made["facts"][0]["id"])
        assert files_with("kingfisher", tmp_path), "this is what the note is for"
        assert await harness.deletions.finish()
        assert files_with("kingfisher", tmp_path) == []


async def test_memory_of_other_users_is_not_accessible(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (_, http):
        made = (await http.post("/api/memory/facts", json={"content": "Likes tea"})).json()
        fact_id, change = made["facts"][0]["id"], (await http.get("/api/memory/history")).json()["changes"][0]
        for method, path, body in (
            ("PATCH", f"facts/{fact_id}", {"content": "Hates tea"}),
            ("DELETE", f"facts/{fact_id}", None),
            ("GET", f"facts/{fact_id}/why", None),
            ("POST", "undo", {"group": change["group"]}),
        ):
            answer = await http.request(method, f"/api/memory/{path}", json=body, headers=OTHER)
            assert answer.status_code == 404 and "Likes" not in answer.text
        for path in ("", "/status", "/export", "/history", "/search?q=tea", f"/history?fact_id={fact_id}"):
            assert "Likes tea" not in (await http.get(f"/api/memory{path}", headers=OTHER)).text
        await http.delete("/api/memory", headers=OTHER)
        await http.put("/api/memory/config", json={"switched_on": False}, headers=OTHER)
        status = (await http.get("/api/memory/status")).json()
        assert status["data"] == made and status["config"]["switched_on"]


async def test_memory_is_exported_and_imported(tmp_path: Path) -> None:
    async with open_server(tmp_path / "one") as (harness, http):
        learned = replace(make_fact("桥梁工程师"), source_error="said architect", source=FactSource("t9"))
        await harness.resources.memory.ledger.apply(LOCAL_SCOPE, [upsert_fact(learned)], "model")
        export = await http.get("/api/memory/export")
        assert export.headers["content-disposition"] == 'attachment; filename="memory.json"'
    async with open_server(tmp_path / "two") as (_, http):
        await http.post("/api/memory/facts", json={"content": "Likes tea"})
        taken = (await http.post("/api/memory/import", json=export.json())).json()
        assert taken["facts"] == export.json()["facts"]
        newest = (await http.get("/api/memory/history")).json()["changes"][0]
        assert newest["actor"] == "import"
        back = (await http.post("/api/memory/undo", json={"group": newest["group"]})).json()
        assert [each["content"] for each in back["facts"]] == ["Likes tea"]


async def test_reload_applies_manual_edits_of_memory_files(tmp_path: Path) -> None:
    async with open_server(tmp_path, storage_class="deerflow.memory.service:JsonFileStorage") as (harness, http):
        made = (await http.post("/api/memory/facts", json={"content": "Likes tea"})).json()
        storage = JsonFileStorage(harness.core.source.current.home)
        document: dict[str, Any] = dict(await storage.load(LOCAL_SCOPE) or {})
        assert document["facts"] == made["facts"]
        document["facts"] = [{**document["facts"][0], "content": "Likes rain"}]
        await storage.save(LOCAL_SCOPE, document)
        read = (await http.post("/api/memory/reload")).json()
        assert [each["content"] for each in read["facts"]] == ["Likes rain"]
        await http.delete("/api/memory")
        assert files_with("Likes", tmp_path) == []
