"""What a thread is called: what a person calls it, everywhere; else what the agent calls it."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse


def asking(text: str) -> dict[str, Any]:
    return {"input": {"messages": [{"type": "human", "content": text}]}}


async def call(http: httpx.AsyncClient, title: object) -> str | None:
    """What the thread is called after a person has said how."""
    changed = await http.patch("/api/threads/t", json={"metadata": {"title": title}})
    assert changed.status_code == 200, changed.text
    found: str | None = changed.json()["values"].get("title")
    return found


async def titles_found(http: httpx.AsyncClient, words: str) -> list[tuple[str, str]]:
    hits = (await http.get("/api/search", params={"q": words})).json()["hits"]
    return [(hit["role"], hit["title"]) for hit in hits]


async def test_what_a_person_calls_a_thread_is_listed_exported_and_found(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Seven.", "Still seven.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=asking("Which hills has Rome?"))
        assert await call(http, "  Topography of the city ") == "Topography of the city"
        await http.post("/api/threads/t/runs/wait", json=asking("Count again"))
        (listed,) = (await http.post("/api/threads/search", json={})).json()
        markdown = (await http.get("/api/threads/t/export")).text
        document = (await http.get("/api/threads/t/export", params={"format": "json"})).json()
        assert listed["values"] == {"title": "Topography of the city"}
        assert markdown.startswith("# Topography of the city\n")
        assert document["thread"]["title"] == "Topography of the city"
        assert await titles_found(http, "topography") == [("title", "Topography of the city")]
        assert await titles_found(http, "hills") == [("human", "Topography of the city")]
        copy = (await http.post("/api/threads/t/copy")).json()
        assert copy["values"]["title"] == "Topography of the city"


async def test_a_name_that_is_taken_back_leaves_the_agents(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Seven.")) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t", "metadata": {"title": "Mine"}})
        assert (await http.get("/api/threads/t")).json()["values"] == {"title": "Mine"}
        await http.post("/api/threads/t/runs/wait", json=asking("Which hills has Rome?"))
        assert (await http.get("/api/threads/t")).json()["values"] == {"title": "Mine"}
        assert await call(http, "Other") == "Other"
        for nothing in (None, "", "  ", 7, ["a"]):
            assert await call(http, nothing) == "Which hills has Rome?"
        assert await titles_found(http, "other") == [] and await titles_found(http, "mine") == []
        assert ("title", "Which hills has Rome?") in await titles_found(http, "hills")


async def test_a_model_that_thinks_of_titles_does_not_take_a_persons_away(tmp_path: Path) -> None:
    namer = {"name": "namer", "use": "deerflow.models.demo:DemoChatModel", "model": "demo", "delay_ms": 0}
    settings: dict[str, object] = {"models": [namer], "title": {"model_name": "namer"}}
    source = open_source(directory=tmp_path, environment={}, overrides=settings)
    async with open_harness(source, ScriptedModel.saying("Seven.")) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t", "metadata": {"title": "Mine"}})
        ended = await http.post("/api/threads/t/runs/wait", json=asking("Which hills has Rome?"))
        run = (await http.get("/api/threads/t/runs")).json()[0]
        assert ended.status_code == 200 and run["status"] == "success"
        async with asyncio.timeout(10):
            await asyncio.gather(*harness.runs._beside.tasks)
        assert (await http.get("/api/threads/t")).json()["values"] == {"title": "Mine"}
        assert await call(http, None) not in (None, "Mine", "Which hills has Rome?")


async def test_a_thread_without_a_name_of_the_agents_is_nameless_again(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t"})
        assert await call(http, "Mine") == "Mine"
        assert await call(http, None) is None
        assert await titles_found(http, "mine") == []
