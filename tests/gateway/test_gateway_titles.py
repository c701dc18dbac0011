"""Titles of threads: that of the user wins over the generated one."""

import asyncio
from pathlib import Path

import httpx

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.gateway.support import build_run_body
from tests.support import OpenHarness, browse


async def set_title(http: httpx.AsyncClient, title: object) -> str | None:
    """Set the title and return the title of the thread."""
    changed = await http.patch("/api/threads/t", json={"metadata": {"title": title}})
    assert changed.status_code == 200, changed.text
    found: str | None = changed.json()["values"].get("title")
    return found


async def search_titles(http: httpx.AsyncClient, words: str) -> list[tuple[str, str]]:
    hits = (await http.get("/api/search", params={"q": words})).json()["hits"]
    return [(hit["role"], hit["title"]) for hit in hits]


async def test_a_title_of_the_user_is_listed_exported_and_searchable(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Seven.", "Still seven.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Which hills has Rome?"))
        assert await set_title(http, "  Topography of the city ") == "Topography of the city"
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Count again"))
        (listed,) = (await http.post("/api/threads/search", json={})).json()
        markdown = (await http.get("/api/threads/t/export")).text
        document = (await http.get("/api/threads/t/export", params={"format": "json"})).json()
        assert listed["values"] == {"title": "Topography of the city"}
        assert markdown.startswith("# Topography of the city\n")
        assert document["thread"]["title"] == "Topography of the city"
        assert await search_titles(http, "topography") == [("title", "Topography of the city")]
        assert await search_titles(http, "hills") == [("human", "Topography of the city")]
        copy = (await http.post("/api/threads/t/copy")).json()
        assert copy["values"]["title"] == "Topography of the city"


async def test_removing_the_users_title_restores_the_generated_one(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Seven.")) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t", "metadata": {"title": "Mine"}})
        assert (await http.get("/api/threads/t")).json()["values"] == {"title": "Mine"}
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Which hills has Rome?"))
        assert (await http.get("/api/threads/t")).json()["values"] == {"title": "Mine"}
        assert await set_title(http, "Other") == "Other"
        for nothing in (None, "", "  ", 7, ["a"]):
            assert await set_title(http, nothing) == "Which hills has Rome?"
        assert await search_titles(http, "other") == [] and await search_titles(http, "mine") == []
        assert ("title", "Which hills has Rome?") in await search_titles(http, "hills")


async def test_generated_titles_do_not_replace_the_users_title(tmp_path: Path) -> None:
    namer = {"name": "namer", "use": "deerflow.models.demo:DemoChatModel", "model": "demo", "delay_ms": 0}
    settings: dict[str, object] = {"models": [namer], "title": {"model_name": "namer"}}
    source = open_source(directory=tmp_path, environment={}, overrides=settings)
    async with open_harness(source, ScriptedModel.saying("Seven.")) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t", "metadata": {"title": "Mine"}})
        ended = await http.post("/api/threads/t/runs/wait", json=build_run_body("Which hills has Rome?"))
        run = (await http.get("/api/threads/t/runs")).json()[0]
        assert ended.status_code == 200 and run["status"] == "success"
        async with asyncio.timeout(10):
            await asyncio.gather(*harness.runs._background.tasks)
        assert (await http.get("/api/threads/t")).json()["values"] == {"title": "Mine"}
        assert await set_title(http, None) not in (None, "Mine", "Which hills has Rome?")


async def test_a_thread_without_a_generated_title_has_none(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t"})
        assert await set_title(http, "Mine") == "Mine"
        assert await set_title(http, None) is None
        assert await search_titles(http, "mine") == []
