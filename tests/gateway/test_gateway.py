"""The API of a real server on a real port."""

import asyncio
import contextlib
import re
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.support import OpenHarness, browse

HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
FULL = {**HI, "stream_mode": ["messages-tuple", "changes", "values"], "on_disconnect": "continue"}


def parse_events(text: str) -> list[tuple[int | None, str, object]]:
    found = re.findall(r"(?:id: (\d+)\n)?event: (\S+)\ndata: (.*)\n\n", text)
    return [(int(id_) if id_ else None, event, orjson.loads(data)) for id_, event, data in found]


async def read_until(stream: AbstractAsyncContextManager[httpx.Response], word: str) -> str:
    """Read a stream until `word` and disconnect."""
    seen = ""
    async with stream as response:
        async for text in response.aiter_text():
            seen += text
            if word in seen:
                break
    return seen


async def test_a_run_is_streamed_from_start_to_end(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello there.")) as harness, browse(harness) as http:
        response = await http.post("/api/langgraph/threads/t1/runs/stream", json=FULL)
        events = parse_events(response.text)
        names = [name for _, name, _ in events]
        ids = [id_ for id_, _, _ in events if id_]

        assert response.headers["content-type"].startswith("text/event-stream")
        assert re.fullmatch(r"/threads/t1/runs/[\w-]+", response.headers["content-location"])
        assert names[0] == "metadata" and names[-1] == "end"
        assert ids[0] == 1 and ids == sorted(set(ids))
        assert "".join(data[0]["content"] for _, name, data in events if name == "messages") == "Hello there."
        last_values = [data for _, name, data in events if name == "values"][-1]
        assert [message["content"] for message in last_values["messages"]] == ["Hi", "Hello there."]


async def test_values_contain_the_whole_thread_from_any_event(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One.", "Two.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t1/runs/wait", json=HI)
        response = await http.post("/api/threads/t1/runs/stream", json=HI)
        values = [data for _, name, data in parse_events(response.text) if name == "values"]
        assert [message["content"] for message in values[-1]["messages"]] == ["Hi", "One.", "Hi", "Two."]
        first_id = parse_events(response.text)[1][0]

        again = await http.get(
            f"/api{response.headers['content-location']}/stream", headers={"Last-Event-ID": str(first_id)}
        )
        assert [data for _, name, data in parse_events(again.text) if name == "values"] == values[1:]


async def test_a_reconnecting_client_gets_the_remaining_events_once(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One two three four five.")) as harness, browse(harness) as http:
        whole = await http.post("/api/threads/t1/runs/stream", json={**FULL, "stream_mode": ["messages-tuple"]})
        events = parse_events(whole.text)
        location = f"/api{whole.headers['content-location']}/stream?stream_mode=messages-tuple"
        for index, (id_, _, _) in enumerate(events):
            rest = await http.get(location, headers={"Last-Event-ID": str(id_)})
            assert parse_events(rest.text) == events[index + 1 :]


async def test_tokens_are_streamed_while_the_model_generates(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Wait for it")))
    async with harness_saying(model) as harness, browse(harness) as http, asyncio.timeout(10):
        stream = http.stream("POST", "/api/threads/t1/runs/stream", json=FULL)
        seen = await read_until(stream, "AIMessageChunk")
        assert "event: end" not in seen


async def test_disconnecting_cancels_a_run_with_on_disconnect_cancel(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Wait")), Stall(Answer("Wait")))
    async with harness_saying(model) as harness, browse(harness) as http, asyncio.timeout(20):
        for mode, status in (("cancel", "interrupted"), ("continue", "running")):
            body = {**FULL, "on_disconnect": mode}
            await read_until(http.stream("POST", f"/api/threads/{mode}/runs/stream", json=body), "Wait")
            run = (await harness.runs.list_by_thread(mode, LOCAL_USER))[0]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5 if mode == "continue" else 10):
                    await harness.runs.join(mode, run.run_id, LOCAL_USER)
            assert (await http.get(f"/api/threads/{mode}/runs/{run.run_id}")).json()["status"] == status


async def test_cancel_keeps_the_partial_answer(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Half a")))
    async with harness_saying(model) as harness, browse(harness) as http, asyncio.timeout(10):
        run = (await http.post("/api/threads/t1/runs", json=HI)).json()
        follow = f"/api/threads/t1/runs/{run['run_id']}"
        await read_until(http.stream("GET", f"{follow}/stream?stream_mode=messages-tuple"), "Half")
        stopped = await http.post(f"{follow}/cancel")
        assert stopped.status_code == 202 and stopped.json()["status"] == "interrupted"
        state = (await http.get("/api/threads/t1/state")).json()
        assert state["values"]["messages"][-1]["content"].startswith("Half")
        assert (await http.post(f"{follow}/cancel")).status_code == 409


async def test_threads_are_created_searched_updated_and_deleted(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness, browse(harness) as http:
        made = await http.post("/api/threads", json={"metadata": {"colour": "red"}})
        thread_id = made.json()["thread_id"]
        await http.post("/api/threads/t1/runs/wait", json=HI)
        listed = (await http.post("/api/threads/search", json={"limit": 10})).json()
        changed = await http.patch(f"/api/threads/{thread_id}", json={"metadata": {"size": 3}})

        assert [thread["thread_id"] for thread in listed] == ["t1", thread_id]
        assert listed[0]["values"] == {"title": "Hi"} and listed[0]["status"] == "idle"
        assert changed.json()["metadata"] == {"colour": "red", "size": 3}
        assert (await http.post("/api/threads", json={"thread_id": "t1"})).status_code == 409
        again = await http.post("/api/threads", json={"thread_id": "t1", "if_exists": "do_nothing"})
        assert again.json()["values"] == {"title": "Hi"}
        assert (await http.delete("/api/threads/t1")).status_code == 204
        assert (await http.get("/api/threads/t1")).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error", "sentence"),
    [
        ("GET", "/api/threads/none", None, 404, "NotFound", "no thread 'none'"),
        ("GET", "/api/threads/none/state", None, 404, "NotFound", "no thread 'none'"),
        ("GET", "/api/threads/none/runs", None, 404, "NotFound", "no thread 'none'"),
        ("GET", "/api/threads/none/runs/x", None, 404, "NotFound", "no run 'x'"),
        ("POST", "/api/threads/none/runs/x/cancel", None, 404, "NotFound", "no run 'x'"),
        ("DELETE", "/api/threads/none", None, 404, "NotFound", "no thread 'none'"),
        ("GET", "/api/models/none", None, 404, "NotFound", "none"),
        ("GET", "/api/nothing/here", None, 404, "NotFound", "nothing found at /api/nothing/here"),
        ("POST", "/api/threads/a%20b/runs", HI, 422, "InvalidRequest", "a thread id is 1 to 64"),
        ("POST", "/api/threads/t/runs", {"input": None}, 422, "InvalidRequest", "input is missing"),
        ("POST", "/api/threads/t/runs", {**HI, "inptu": 1}, 422, "InvalidRequest", "body.inptu"),
        ("POST", "/api/threads/t/runs", {**HI, "stream_mode": "events"}, 422, "InvalidRequest", "stream_mode"),
        ("POST", "/api/threads/t/runs", {**HI, "multitask_strategy": "whatever"}, 422, "InvalidRequest", "multitask"),
        ("POST", "/api/threads/t/runs", {**HI, "if_not_exists": "reject"}, 404, "NotFound", "no thread 't'"),
        ("POST", "/api/threads/t/runs", {**HI, "context": {"thinking_enabled": 7}}, 422, "InvalidRequest", "thinking"),
        ("POST", "/api/threads/t/runs", {"command": {"update": {}, "goto": []}}, 422, "InvalidRequest", "nothing"),
        ("POST", "/api/threads/search", {"limit": 0}, 422, "InvalidRequest", "body.limit"),
    ],
)
async def test_invalid_requests_get_a_named_error(
    harness_saying: OpenHarness, method: str, path: str, body: object, status: int, error: str, sentence: str
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        response = await http.request(method, path, json=body)
        answer = response.json()
        assert (response.status_code, answer["error"]) == (status, error)
        assert sentence in answer["detail"]
        assert await harness.threads.search(LOCAL_USER, 10, 0) == []


async def test_an_invalid_last_event_id_is_rejected(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness, browse(harness) as http:
        run = (await http.post("/api/threads/t/runs", json=HI)).json()
        path = f"/api/threads/t/runs/{run['run_id']}/stream"
        response = await http.get(path, headers={"Last-Event-ID": "first"})
        assert response.status_code == 422 and "'first'" in response.json()["detail"]


async def test_cross_site_requests_are_blocked(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        rebound = await http.get("/health", headers={"Host": "evil.example"})
        foreign = await http.post("/api/threads", json={}, headers={"Origin": "http://evil.example"})
        own = await http.post("/api/threads", json={}, headers={"Origin": str(http.base_url).rstrip("/")})
        assert (rebound.status_code, foreign.status_code, own.status_code) == (403, 403, 200)
        assert rebound.json()["error"] == "Forbidden"


async def test_models_contain_no_secret(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        models = (await http.get("/api/models")).json()
        starters = (await http.get("/api/starters")).json()["starters"]
        assert models["default"] == "demo" and models["models"][0]["scripted"] is True
        assert {"name", "model", "display_name"} < models["models"][0].keys()
        assert {"tour", "formatting", "real-model"} <= {starter["id"] for starter in starters}


async def test_the_page_is_served_at_every_application_path(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        root, thread = await http.get("/"), await http.get("/threads/abc")
        assert root.text == thread.text and "<!doctype html" in root.text.lower()
        policy = root.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        script = re.search(r'src="(/assets/[^"]+\.js)"', root.text)
        assert script
        asset = await http.get(script[1])
        assert asset.status_code == 200 and "immutable" in asset.headers["cache-control"]
        for path in ("/..%2f..%2fapp.py", "/assets/..%2findex.html", "/%2e%2e/app.py"):
            response: httpx.Response = await http.get(path)
            assert "FastAPI" not in response.text


async def test_messages_and_history_of_a_thread_are_returned(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One.", "Two.")) as harness, browse(harness) as http:
        for _ in range(2):
            await http.post("/api/threads/t1/runs/wait", json=HI)
        messages = (await http.get("/api/threads/t1/messages")).json()["messages"]
        history = (await http.post("/api/threads/t1/history", json={"limit": 3})).json()

        assert [message["content"] for message in messages] == ["Hi", "One.", "Hi", "Two."]
        assert [len(state["values"]["messages"]) for state in history] == [4, 3, 2]
        assert history[0]["parent_checkpoint"] == history[1]["checkpoint"]
        assert (await http.get("/api/threads/none/messages")).status_code == 404


async def test_an_interrupted_run_is_resumed_with_an_answer(tmp_path: Path) -> None:
    tool = {"name": "launch", "group": "space", "use": "tests.gateway.reference.parrot:launch", "approval": "always"}
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": [tool]})
    model = ScriptedModel.saying(calling("launch", rocket="Saturn"), "Done.")
    async with open_harness(source, model) as harness, browse(harness) as http:
        paused = await http.post("/api/threads/t1/runs/stream", json={**HI, "stream_mode": "values"})
        values = [data for _, name, data in parse_events(paused.text) if name == "values"][-1]
        assert values["__interrupt__"][0]["value"]["action_requests"][0]["args"] == {"rocket": "Saturn"}
        state = (await http.get("/api/threads/t1/state")).json()
        assert state["interrupts"][0]["value"]["action_requests"][0]["name"] == "launch"

        body = {"command": {"resume": {"decisions": [{"type": "approve"}]}}, "stream_mode": "values"}
        resumed = await http.post("/api/threads/t1/runs/stream", json=body)
        values = [data for _, name, data in parse_events(resumed.text) if name == "values"][-1]
        assert values["messages"][-1]["content"] == "Done." and "__interrupt__" not in values
