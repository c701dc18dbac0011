"""Threads that earlier versions stored with values of wrong types are read, copied and continued, on every database."""

from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from langchain_core.messages import AIMessage, ChatMessage

from deerflow.agent_support.thread_state import merge_messages, merge_untrusted, read_value
from deerflow.config.source import ConfigSource, open_source
from deerflow.harness import Harness
from deerflow.testing import ScriptedModel, calling
from tests.support import OpenHarness, browse

LIST_FILES = calling("ls", description="to see", path="/mnt/user-data/workspace")
HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
DAMAGES: dict[str, dict[str, Any]] = {
    "a number of artifacts": {"artifacts": 5},
    "artifacts that are objects": {"artifacts": [{"path": "a"}, "/mnt/user-data/outputs/a.md"]},
    "a list of promoted tools": {"promoted": ["a"]},
    "promoted tools without digests": {"promoted": {"a": 5}},
    "a text of untrusted sources": {"untrusted": "everything"},
    "untrusted sources that are lists": {"untrusted": [["web_fetch"], "web_fetch"]},
    "a list of viewed images": {"viewed_images": [1]},
    "viewed images without type": {"viewed_images": {"a.png": "large"}},
    "a text of skills": {"skill_context": "skill"},
    "skills without path": {"skill_context": [{"name": "a"}, 5]},
    "everything": {
        "artifacts": 5,
        "promoted": ["a"],
        "untrusted": "everything",
        "viewed_images": [1],
        "skill_context": "skill",
        "todos": "none",
        "title": 5,
    },
}
DAMAGED_MESSAGES: dict[str, Any] = {
    "an unknown type": [{"type": "wizard", "content": "Hi"}],
    "an unknown role": [ChatMessage("Hi", role="wizard", id="wizard")],
    "a message without content": [{"type": "human"}],
    "a number": 5,
    "a list of numbers": [5],
}


@pytest.fixture(params=["sqlite", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> ConfigSource:
    """Return a configuration with one of the databases."""
    database = {"database": {"url": request.getfixturevalue("postgres_url")}} if request.param == "postgres" else {}
    return open_source(directory=tmp_path, environment={}, overrides={"memory": {"debounce_seconds": 3600}, **database})


async def write_values(harness: Harness, values: dict[str, Any]) -> None:
    """Write values into the latest checkpoint of the thread, without looking at them."""
    saver = harness.core.checkpointer
    saved = await saver.aget_tuple(PLACE)
    assert saved is not None
    checkpoint = saved.checkpoint
    versions = {name: saver.get_next_version(checkpoint["channel_versions"].get(name), None) for name in values}  # type: ignore[arg-type]
    damaged: Any = {
        **checkpoint,
        "id": str(UUID(int=UUID(checkpoint["id"]).int + 1)),
        "channel_values": {**checkpoint["channel_values"], **values},
        "channel_versions": {**checkpoint["channel_versions"], **versions},
    }
    await saver.aput(saved.config, damaged, saved.metadata, versions)


async def write_messages(harness: Harness, message: Any) -> None:
    """Write a message into the history of the thread, without looking at it."""
    saver = harness.core.checkpointer
    for saved in [each async for each in saver.alist(PLACE)][1:]:
        await saver.aput_writes(saved.config, [("messages", message)], f"damaged-{saved.checkpoint['id']}")


async def check_readable(http: httpx.AsyncClient) -> None:
    """Check that every way to read the thread works, that it can be copied, and that the next message is answered."""
    paths = ("", "/state", "/history", "/runs", "/messages", "/messages/page", "/export?format=json")
    for path in paths:
        response = await http.get(f"/api/threads/t{path}")
        assert response.status_code == 200, (path, response.text[:500])
    state = (await http.get("/api/threads/t/state")).json()
    assert [each["content"] for each in state["values"]["messages"] if each["type"] in ("human", "ai")] == [
        "Hi",
        "One.",
    ]
    for path, body in (
        ("/history", {"limit": 10}),
        ("/state/checkpoint", {"checkpoint": state["checkpoint"]}),
        ("/copy", {}),
    ):
        response = await http.post(f"/api/threads/t{path}", json=body)
        assert response.status_code == 200, (path, response.text[:500])
    copied = response.json()["thread_id"]
    assert (await http.get(f"/api/threads/{copied}/state")).status_code == 200
    assert (await http.post("/api/threads/search", json={})).status_code == 200
    continued = await http.post("/api/threads/t/runs/wait", json=HI)
    assert continued.status_code == 200, continued.text[:500]
    messages = continued.json()["messages"]
    assert messages[-1]["content"] == "Two." and messages[-2]["type"] == "tool" and messages[-2]["status"] == "success"
    updated = await http.post("/api/threads/t/state", json={"values": {"artifacts": ["/mnt/user-data/outputs/b.md"]}})
    assert updated.status_code == 200, updated.text[:500]
    values = (await http.get("/api/threads/t/state")).json()["values"]
    assert values["artifacts"][-1] == "/mnt/user-data/outputs/b.md"


@pytest.mark.parametrize("values", DAMAGES.values(), ids=DAMAGES)
async def test_a_thread_with_values_of_wrong_types_is_read_and_continued(
    harness_saying: OpenHarness, values: dict[str, Any]
) -> None:
    async with harness_saying(ScriptedModel.saying("One.", LIST_FILES, "Two.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=HI)
        await write_values(harness, values)
        await check_readable(http)


@pytest.mark.parametrize("message", DAMAGED_MESSAGES.values(), ids=DAMAGED_MESSAGES)
async def test_a_thread_with_an_unknown_message_is_read_and_continued(
    harness_saying: OpenHarness, message: Any
) -> None:
    async with harness_saying(ScriptedModel.saying("One.", LIST_FILES, "Two.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=HI)
        await write_messages(harness, message)
        await check_readable(http)


def test_what_cannot_be_read_is_left_out() -> None:
    kept = AIMessage("Kept", id="1")
    assert merge_messages([], [[{"type": "wizard"}], [kept], 5]) == [kept]
    image = {"mime_type": "image/png", "size": 5}
    assert read_value({"viewed_images": {"a.png": "large", "b.png": image}}, "viewed_images") == {"b.png": image}
    assert read_value({"promoted": ["a"]}, "promoted") == []
    assert read_value({"promoted": {"a": 5, "b": "digest"}}, "promoted") == {"b": "digest"}
    assert read_value({"skill_context": [{"name": "a"}, 5]}, "skill_context") == []
    assert read_value({"todos": "none"}, "todos") is None


def test_taint_that_cannot_be_read_is_kept_as_an_unknown_source() -> None:
    assert merge_untrusted("everything", ["web_fetch"]) == ["unknown", "web_fetch"]  # type: ignore[arg-type]
    assert merge_untrusted([["a"], "b"], None) == ["unknown", "b"]  # type: ignore[list-item]
    assert merge_untrusted(None, []) == []
