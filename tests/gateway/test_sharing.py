"""Share links."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.config.source import open_source
from deerflow.domain.errors import FileProblem, NotFound
from deerflow.domain.identity import Principal
from deerflow.gateway.app import create_app
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, ToolRequest, calling, thinking
from tests.canary import files_with
from tests.gateway.support import build_run_body
from tests.support import browse

KEY = "sk-kingfisher-0123456789"
CONFIG = f"""
models: [{{name: demo, use: "deerflow.models.demo:DemoChatModel", model: demo, api_key: {KEY}}}]
sharing: {{enabled: true}}
suggestions: {{enabled: false}}
"""
REPORT, PAGE, NOTES = (f"/mnt/user-data/outputs/{name}" for name in ("report.md", "page.html", "notes.md"))
WRITE = Answer(
    calls=tuple(
        ToolRequest("write_file", f'{{"description": "d", "path": "{path}", "content": "{text}"}}', id=f"w{number}")
        for number, (path, text) in enumerate([(REPORT, "# Report"), (PAGE, "<b>page</b>"), (NOTES, "private")])
    )
)
PRESENT = calling("present_files", filepaths=[REPORT, PAGE])


@asynccontextmanager
async def open_server(
    folder: Path, *said: Any, settings: str = CONFIG
) -> AsyncIterator[tuple[Harness, httpx.AsyncClient]]:
    (folder / "config.yaml").write_text(settings)
    source = open_source(directory=folder, environment={})
    async with open_harness(source, ScriptedModel.saying(*said)) as harness, browse(harness) as http:
        yield harness, http


async def share(http: httpx.AsyncClient, thread_id: str = "t", **body: Any) -> dict[str, Any]:
    made = await http.post(f"/api/threads/{thread_id}/shares", json=body)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


async def list_statuses(http: httpx.AsyncClient, token: str) -> set[int]:
    """Return the statuses of all routes of a link."""
    paths = ("", "/messages", f"/artifacts{REPORT}", f"/previews{PAGE}")
    return {(await http.get(f"/api/shared/{token}{path}")).status_code for path in paths}


def open_other_user(harness: Harness) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """Return a client of another user."""
    app = create_app(harness)
    app.state.identify = lambda _request: Principal("stranger")
    return browse(harness, app)


async def test_sharing_is_disabled_by_default(tmp_path: Path) -> None:
    async with open_server(tmp_path, "Hello.", settings=CONFIG.replace("true", "false", 1)) as (harness, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Hi"))
        refused = await http.post("/api/threads/t/shares", json={})
        assert (refused.status_code, refused.json()["error"]) == (409, "Conflict")
        assert "sharing.enabled" in refused.json()["detail"]
        assert (await http.get("/api/features")).json()["enabled"]["sharing"] is False


async def test_readers_of_a_link_see_messages_and_presented_files_only(tmp_path: Path) -> None:
    script = (WRITE, PRESENT, thinking("Secretly.", then=f"Here it is; the key is {KEY}."), "Later.")
    async with open_server(tmp_path, *script) as (harness, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body(f"Write with {KEY}"))
        hidden = {"type": "human", "content": "Unseen", "additional_kwargs": {"hide_from_ui": True}}
        await http.post("/api/threads/t/state", json={"values": {"messages": [hidden]}})
        made = await share(http)
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Between us"))
        async with open_other_user(harness) as reader:
            about = await reader.get(f"/api/shared/{made['token']}")
            messages = await reader.get(f"/api/shared/{made['token']}/messages")
            report = await reader.get(f"/api/shared/{made['token']}/artifacts{REPORT}")
            page = await reader.get(f"/api/shared/{made['token']}/previews{PAGE}")
            alone = {"Sec-Fetch-Dest": "document"}
            window = await reader.get(f"/api/shared/{made['token']}/previews{PAGE}", headers=alone)
            notes = await reader.get(f"/api/shared/{made['token']}/artifacts{NOTES}")
            climbed = await reader.get(f"/api/shared/{made['token']}/artifacts{REPORT}/../notes.md")
            thread = await reader.get("/api/threads/t")
            listed = await reader.get("/api/threads/t/shares")
    assert about.json()["artifacts"] == [REPORT, PAGE] and about.headers["cache-control"] == "no-store"
    said = [each["message"] for each in messages.json()["data"]]
    assert [each["type"] for each in said] == ["human", "ai", "tool", "tool", "tool", "ai", "tool", "ai"]
    assert [call["name"] for call in said[1]["tool_calls"]] == ["write_file"] * 3
    assert said[-1]["content"] == "Here it is; the key is ********."
    for unseen in (KEY, "Secretly", "Unseen", "Between us", "Later", "usage_metadata", "run_id", "thought"):
        assert unseen not in messages.text + about.text
    assert report.text == "# Report" and report.headers["content-security-policy"].startswith("sandbox")
    assert report.headers["x-content-type-options"] == "nosniff"
    assert escape("<b>page</b>") in page.text and page.headers["content-security-policy"].startswith(
        "sandbox allow-scripts;"
    )
    assert {each.status_code for each in (window, notes, climbed, thread, listed)} == {404}


async def test_abandoned_branches_are_not_shared(tmp_path: Path) -> None:
    async with open_server(tmp_path, "One.", "Two.", "Other.") as (_, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("first"))
        origin = (await http.get("/api/threads/t/state")).json()["checkpoint_id"]
        await http.post("/api/threads/t/runs/wait", json=build_run_body("regretted"))
        await http.post("/api/threads/t/runs/wait", json=build_run_body("instead", checkpoint_id=origin))
        token = (await share(http))["token"]
        newest = (await http.get(f"/api/shared/{token}/messages", params={"limit": 2})).json()
        older = (await http.get(f"/api/shared/{token}/messages", params={"before": newest["before"]})).json()
    said = [each["message"]["content"] for page in (older, newest) for each in page["data"]]
    assert said == ["first", "One.", "instead", "Other."] and older["before"] is None


async def test_a_revoked_link_is_not_found(tmp_path: Path) -> None:
    async with open_server(tmp_path, WRITE, PRESENT, "Done.") as (_, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Hi"))
        first, second = await share(http), await share(http, expires_in_days=3)
        listed = (await http.get("/api/threads/t/shares")).json()
        assert [each["share_id"] for each in listed] == [second["share_id"], first["share_id"]]
        assert first["token"] not in str(listed) and first["expires_at"] is None and second["expires_at"]
        gone = f"/api/threads/t/shares/{first['share_id']}"
        assert (await http.delete(gone)).status_code == 204 and (await http.delete(gone)).status_code == 404
        assert await list_statuses(http, first["token"]) == {404} and await list_statuses(http, second["token"]) == {
            200
        }


async def test_a_link_expires(tmp_path: Path) -> None:
    async with open_server(tmp_path, WRITE, PRESENT, "Done.") as (harness, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Hi"))
        token = (await share(http, expires_in_days=3))["token"]
        sharing = harness.resources.sharing
        day = timedelta(days=1)
        early = replace(sharing, now=lambda: sharing.now() + 2.9 * day)
        late = replace(sharing, now=lambda: sharing.now() + 3 * day)
        assert (await early.open(token)).title == "Hi"
        for ended in (late.open(token), late.read_page(token, None, 10), late.find_artifact(token, REPORT)):
            with pytest.raises(NotFound, match="has expired"):
                await ended
        with pytest.raises(FileProblem):
            await early.find_artifact(token, NOTES)


async def test_the_maximum_lifetime_of_links_is_configurable(tmp_path: Path) -> None:
    limited = CONFIG.replace("enabled: true}", "enabled: true, max_days: 7}", 1)
    async with open_server(tmp_path, settings=limited) as (_, http):
        await http.post("/api/threads", json={"thread_id": "t"})
        refused = await http.post("/api/threads/t/shares", json={"expires_in_days": 8})
        assert refused.status_code == 422 and "at most 7 days" in refused.json()["detail"]
        assert (await share(http))["expires_at"] is not None
        for wrong in ({"expires_in_days": 0}, {"expires_in_days": "soon"}, {"token": "mine"}):
            assert (await http.post("/api/threads/t/shares", json=wrong)).status_code == 422


async def test_links_are_disabled_with_sharing_and_can_be_revoked(tmp_path: Path) -> None:
    async with open_server(tmp_path, WRITE, PRESENT, "Done.") as (_, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Hi"))
        made = await share(http)
        assert await list_statuses(http, made["token"]) == {200}
        (tmp_path / "config.yaml").write_text(CONFIG.replace("enabled: true", "enabled: false", 1))
        assert await list_statuses(http, made["token"]) == {404}
        assert len((await http.get("/api/threads/t/shares")).json()) == 1
        assert (await http.delete(f"/api/threads/t/shares/{made['share_id']}")).status_code == 204


async def test_deleting_a_thread_deletes_its_links(tmp_path: Path) -> None:
    async with open_server(tmp_path, WRITE, PRESENT, "Done.") as (_, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Hi"))
        made = await share(http)
        assert (await http.delete("/api/threads/t")).status_code == 204
        assert await list_statuses(http, made["token"]) == {404}
        assert (await http.post("/api/threads", json={"thread_id": "t"})).status_code == 200
        assert await list_statuses(http, made["token"]) == {404}
        assert (await http.get("/api/threads/t/shares")).json() == []
    assert files_with(sha256(made["token"].encode()).hexdigest(), tmp_path) == []


async def test_link_secrets_are_random_and_not_stored(tmp_path: Path) -> None:
    async with open_server(tmp_path, "Hello.") as (_, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Hi"))
        made = await share(http)
        token = made["token"]
        assert len(token) >= 43 and made["path"] == f"/share/{token}"
        hashed = sha256(token.encode()).hexdigest()
        for guess in (made["share_id"], hashed, "t", "%", "a" * 200, token[:-1], token.swapcase(), "%ff", "%00"):
            answer = await http.get(f"/api/shared/{guess}")
            assert answer.status_code == 404, guess
        assert (await http.get(f"/api/shared/{'a' * 201}")).status_code == 422
        assert (await http.post(f"/api/shared/{token}", json={})).status_code == 405
        page = await http.get(made["path"])
        assert page.headers["x-robots-tag"] == "noindex, nofollow" and page.headers["referrer-policy"] == "no-referrer"
    assert files_with(token, tmp_path) == []


async def test_threads_of_other_users_cannot_be_shared(tmp_path: Path) -> None:
    async with open_server(tmp_path, "Hello.") as (harness, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Hi"))
        made = await share(http)
        async with open_other_user(harness) as other:
            assert (await other.post("/api/threads/t/shares", json={})).status_code == 404
            assert (await other.delete(f"/api/threads/t/shares/{made['share_id']}")).status_code == 404
        assert len((await http.get("/api/threads/t/shares")).json()) == 1
        assert (await http.post("/api/threads/none/shares", json={})).status_code == 404
