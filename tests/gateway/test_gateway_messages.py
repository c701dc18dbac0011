"""Pages of messages, and copies of threads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.config.source import open_source
from deerflow.gateway.app import create_app
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel, calling, in_parallel, thinking


@asynccontextmanager
async def open_thread(home: Path, *answers: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of a thread with several answers."""
    model = ScriptedModel.saying(*answers)
    async with open_harness(open_source(directory=home, environment={}), model) as harness, asyncio.timeout(30):
        transport = httpx.ASGITransport(create_app(harness))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/threads/t") as http:
            yield http


async def send_message(http: httpx.AsyncClient, text: str, **options: Any) -> None:
    body = {"input": {"messages": [{"type": "human", "id": text, "content": text}]}, **options}
    answer = await http.post("/runs/wait", json=body)
    assert answer.status_code == 200, answer.text


async def get_page(http: httpx.AsyncClient, **options: Any) -> dict[str, Any]:
    answer = await http.get("/messages/page", params=options)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def list_texts(found: dict[str, Any]) -> list[str]:
    return [
        said["message"]["content"]
        for said in found["data"]
        if not said["message"]["additional_kwargs"].get("hide_from_ui")
    ]


async def find_newest_checkpoint(http: httpx.AsyncClient, run_id: str, **filters: str) -> str:
    """Return the newest checkpoint of a run."""
    history = await http.post("/history", json={"limit": 1, "metadata": {"deerflow_run": run_id, **filters}})
    found: str = history.json()[0]["checkpoint_id"]
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_contain_all_messages(tmp_path: Path, limit: int) -> None:
    async with open_thread(tmp_path, "One.", "Two.", "Three.") as http:
        for text in "123":
            await send_message(http, text)
        whole = (await http.get("/messages")).json()
        last = await get_page(http, limit=limit)
        assert last["values"] == {key: value for key, value in whole.items() if key != "messages"}
        assert last["heard"]["run_id"] == last["data"][-1]["run_id"]
        parts, before = last["data"], last["before"]
        while before is not None:
            part = await get_page(http, limit=limit, before=before)
            assert part["values"] is None and 0 < len(part["data"]) <= limit
            parts, before = part["data"] + parts, part["before"]
        assert [said["message"] for said in parts] == whole["messages"]
        times = [datetime.fromisoformat(said["created_at"]) for said in parts]
        assert times == sorted(times)


async def test_an_empty_thread_has_an_empty_page(tmp_path: Path) -> None:
    async with open_thread(tmp_path) as http:
        await http.post("http://127.0.0.1/api/threads", json={"thread_id": "t"})
        nothing = {"data": [], "values": {}, "heard": None, "has_more": False, "before": None}
        assert await get_page(http) == nothing
        assert (await http.get("http://127.0.0.1/api/threads/other/messages/page")).status_code == 404


@pytest.mark.parametrize("before", ["x", "run.1", "run.a.b", "run.1.-1", ""])
async def test_an_invalid_cursor_is_rejected(tmp_path: Path, before: str) -> None:
    async with open_thread(tmp_path, "One.") as http:
        await send_message(http, "1")
        answer = await http.get("/messages/page", params={"before": before})
        assert (answer.status_code, answer.json()["error"]) == (422, "InvalidRequest")


async def test_a_regenerated_answer_marks_the_old_one(tmp_path: Path) -> None:
    async with open_thread(tmp_path, "One.", "Two.", "Another two.") as http:
        await send_message(http, "1")
        await send_message(http, "2")
        second = (await get_page(http))["data"][-1]["run_id"]
        at = await find_newest_checkpoint(http, second, source="input")
        assert (await http.post("/runs/wait", json={"checkpoint_id": at})).status_code == 200
        for limit in (2, 100):
            said = await get_page(http, limit=100)
            if limit == 2:
                later = await get_page(http, limit=1)
                said = await get_page(http, before=later["before"])
                said["data"] += later["data"]
            assert list_texts(said) == ["1", "One.", "2", "Two.", "Another two."]
            left = {each["message"]["content"]: each["left_behind_by"] for each in said["data"]}
            newest = said["data"][-1]["run_id"]
            assert left["Two."] == newest != second
            assert [left[text] for text in ("1", "One.", "2", "Another two.")] == [None] * 4


async def test_an_edited_message_marks_the_old_one(tmp_path: Path) -> None:
    async with open_thread(tmp_path, "One.", "Another one.") as http:
        await send_message(http, "1")
        first = (await get_page(http))["data"][-1]["run_id"]
        await send_message(http, "other", checkpoint_id=await find_newest_checkpoint(http, first, source="input"))
        left = {each["message"]["content"] for each in (await get_page(http))["data"] if each["left_behind_by"]}
        assert left >= {"1", "One."} and not left & {"other", "Another one."}
        state = (await http.get("/state")).json()["values"]["messages"]
        assert [message["content"] for message in state if message["type"] != "system"][-2:] == [
            "other",
            "Another one.",
        ]


async def test_pages_contain_the_thinking_time(tmp_path: Path) -> None:
    async with open_thread(tmp_path, thinking("Let me see.", "One."), "Two.") as http:
        await send_message(http, "1")
        await send_message(http, "2")
        thought = {said["message"]["content"]: said["thought_ms"] for said in (await get_page(http))["data"]}
        assert thought["One."] >= 0 and thought["Two."] is None


async def test_pages_contain_the_duration_of_each_tool_call_of_a_step_with_a_long_one(tmp_path: Path) -> None:
    calls = in_parallel(calling("bash", description="long", command="sleep 1"), calling("ls", path="/mnt/user-data"))
    quick = calling("ls", path="/mnt/user-data")
    async with open_thread(tmp_path, calls, quick, "Done.") as http:
        await send_message(http, "1")
        results = [said for said in (await get_page(http))["data"] if said["message"]["type"] == "tool"]
        took = [(said["message"]["name"], said["took_ms"]) for said in results]
        assert [name for name, _ in took] == ["bash", "ls", "ls"]
        (_, long), (_, beside), (_, alone) = took
        assert long >= 1000 > beside and alone is None


async def test_threads_without_messages_can_be_left_out_of_a_search(tmp_path: Path) -> None:
    async with open_thread(tmp_path, "One.") as http:
        await send_message(http, "1")
        await http.post("http://127.0.0.1/api/threads", json={"thread_id": "files-only"})
        for wanted, ids in ((True, {"t"}), (False, {"files-only"}), (None, {"t", "files-only"})):
            found = await http.post("http://127.0.0.1/api/threads/search", json={"has_messages": wanted})
            assert {thread["thread_id"] for thread in found.json()} == ids
            count = await http.post("http://127.0.0.1/api/threads/count", json={"has_messages": wanted})
            assert count.json() == len(ids)


async def test_the_upload_limits_are_known_before_there_is_a_thread(tmp_path: Path) -> None:
    async with open_thread(tmp_path) as http:
        limits = (await http.get("http://127.0.0.1/api/uploads/limits")).json()
        await http.post("http://127.0.0.1/api/threads", json={"thread_id": "t"})
        assert limits == (await http.get("/uploads/limits")).json()
        assert limits["max_file_size"] > 0


async def test_a_thread_is_copied_from_a_checkpoint(tmp_path: Path) -> None:
    async with open_thread(tmp_path, "One.", "Two.", "Another two.") as http:
        await send_message(http, "1")
        await send_message(http, "2")
        first = (await get_page(http))["data"][0]["run_id"]
        made = await http.post("/copy", json={"checkpoint_id": await find_newest_checkpoint(http, first)})
        http.base_url = f"http://127.0.0.1/api/threads/{made.json()['thread_id']}"
        assert list_texts(await get_page(http)) == ["1", "One."]
        await send_message(http, "go on")
        assert list_texts(await get_page(http)) == ["1", "One.", "go on", "Another two."]


async def test_a_copy_from_an_unknown_checkpoint_is_rejected(tmp_path: Path) -> None:
    async with open_thread(tmp_path, "One.") as http:
        await send_message(http, "1")
        refused = await http.post("/copy", json={"checkpoint_id": "1f000000-0000-6000-8000-000000000000"})
        assert refused.status_code == 404
        assert len((await http.post("http://127.0.0.1/api/threads/search", json={})).json()) == 1
