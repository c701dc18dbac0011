"""Titles of threads: that of the user wins over the generated one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from langchain.agents.middleware import AgentMiddleware

from deerflow.agents.features import RuntimeFeatures
from deerflow.config.source import open_source
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, ScriptedServer, ServerFault, Stall, Usage
from deerflow.testing.scripted_server import ServerTurn
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
        assert (await http.get("/api/threads/t")).json()["values"]["title"] == "Mine"
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Which hills has Rome?"))
        assert (await http.get("/api/threads/t")).json()["values"]["title"] == "Mine"
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
        assert (await http.get("/api/threads/t")).json()["values"]["title"] == "Mine"
        assert await set_title(http, None) not in (None, "Mine", "Which hills has Rome?")


async def test_a_thread_without_a_generated_title_has_none(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t"})
        assert await set_title(http, "Mine") == "Mine"
        assert await set_title(http, None) is None
        assert await search_titles(http, "mine") == []


@asynccontextmanager
async def serve_titles(
    tmp_path: Path, *turns: ServerTurn, **settings: Any
) -> AsyncIterator[tuple[ScriptedServer, Harness, httpx.AsyncClient]]:
    """Yield an endpoint that is also asked for titles, and a server with its model."""
    async with ScriptedServer(turns, titles=True) as endpoint:
        overrides = {"models": [endpoint.model_config().model_dump(exclude_none=True)], **settings}
        source = open_source(directory=tmp_path, environment={}, overrides=overrides)
        async with open_harness(source) as harness, browse(harness) as http:
            yield endpoint, harness, http


async def finish_background(harness: Harness) -> None:
    async with asyncio.timeout(10):
        await asyncio.gather(*harness.runs._background.tasks)


async def list_titles(http: httpx.AsyncClient) -> list[str | None]:
    return [each["values"].get("title") for each in (await http.post("/api/threads/search", json={})).json()]


async def test_the_model_of_the_run_writes_the_title_and_the_run_is_charged(tmp_path: Path) -> None:
    title = Answer("The hills of Rome", usage=Usage(70, 5))
    async with serve_titles(tmp_path, "Seven.", title, "Yes.") as (endpoint, harness, http):
        done = await http.post("/api/threads/t/runs/wait", json=build_run_body("Which hills has Rome?"))
        assert done.json()["title"] in (
            "Which hills has Rome?",
            "The hills of Rome",
        )  # first words, until it is written
        await finish_background(harness)
        assert endpoint.requests[1].messages[0]["content"].startswith("Give this conversation a title")
        assert await list_titles(http) == ["The hills of Rome"]
        assert (await http.get("/api/threads/t/state")).json()["values"]["title"] == "The hills of Rome"
        run = (await http.get("/api/threads/t/runs")).json()[0]
        usage = (await http.get("/api/threads/t/token-usage")).json()
        assert [each["total_tokens"] for each in usage["by_caller"] if each["name"] == "title"] == [75]
        charged = (await http.get(f"/api/threads/t/runs/{run['run_id']}/token-usage")).json()
        assert charged["total_tokens"] == usage["totals"]["total_tokens"]
        again = await http.post("/api/threads/t/runs/stream", json=build_run_body("All?") | {"stream_mode": ["values"]})
        values = [orjson.loads(line[6:]) for line in again.text.splitlines() if line.startswith("data: {")]
        assert [each["title"] for each in values if each.get("messages")][-1] == "The hills of Rome"
        assert len(endpoint.requests) == 3


async def test_the_run_ends_before_its_title_is_written(tmp_path: Path) -> None:
    async with serve_titles(tmp_path, "Seven.", Stall(Answer("Rome"))) as (endpoint, harness, http):
        done = await http.post("/api/threads/t/runs/wait", json=build_run_body("Which hills has Rome?"))
        assert done.status_code == 200
        async with asyncio.timeout(10):
            await endpoint.waiting.wait()
        assert (await http.get("/api/threads/t")).json()["status"] == "idle"
        endpoint.release()
        await finish_background(harness)
        assert await list_titles(http) == ["Rome"]


async def test_a_run_that_ends_while_the_title_is_written_does_not_ask_for_another(tmp_path: Path) -> None:
    async with serve_titles(tmp_path, "Seven.", Stall(Answer("Rome")), "Yes.") as (endpoint, harness, http):
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Which hills has Rome?"))
        async with asyncio.timeout(10):
            await endpoint.waiting.wait()
        done = await http.post("/api/threads/t/runs/wait", json=build_run_body("All?"))
        assert done.status_code == 200
        endpoint.release()
        await finish_background(harness)
        assert await list_titles(http) == ["Rome"] and len(endpoint.requests) == 3


async def test_a_failed_title_keeps_the_first_words_and_is_tried_once_more(tmp_path: Path) -> None:
    turns = ("Seven.", ServerFault(400), "Yes.", Answer("Rome"), "No.")
    async with serve_titles(tmp_path, *turns) as (endpoint, harness, http):
        for text, titles in (("Which hills?", ["Which hills?"]), ("All?", ["Rome"]), ("And?", ["Rome"])):
            await http.post("/api/threads/t/runs/wait", json=build_run_body(text))
            await finish_background(harness)
            assert await list_titles(http) == titles
        assert len(endpoint.requests) == 5


async def test_no_title_is_asked_for_when_titles_are_off(tmp_path: Path) -> None:
    async with serve_titles(tmp_path, "Seven.", title={"enabled": False}) as (endpoint, harness, http):
        done = await http.post("/api/threads/t/runs/wait", json=build_run_body("Which hills has Rome?"))
        await finish_background(harness)
        assert "title" not in done.json() and await list_titles(http) == [None]
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("/deep-research hills of Rome", "hills of Rome"),
        ("/deep-research", None),
        ('\n<file path="/mnt/a.csv">\n1,2\n</file>\n', None),
        ('<file path="/mnt/a.csv">1,2</file> Add the numbers', "Add the numbers"),
        ([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}], None),
        ("/tmp/data is full", "/tmp/data is full"),
        ("<filed> away", "<filed> away"),
    ],
)
async def test_a_command_or_an_attachment_is_no_title(
    harness_saying: OpenHarness, content: object, title: str | None
) -> None:
    async with harness_saying(ScriptedModel.saying("Done.")) as harness, browse(harness) as http:
        body = {"input": {"messages": [{"role": "user", "content": content}]}}
        assert (await http.post("/api/threads/t/runs/wait", json=body)).status_code == 200
        assert await list_titles(http) == [title]


class OwnTitleMiddleware(AgentMiddleware[Any, Any, Any]):
    """Names every thread."""

    async def aafter_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"title": "T!"}


async def test_the_title_of_an_own_middleware_is_listed(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Hello.", "Hello again.")
    model.writes_titles = True  # it must not be asked: the script has no title
    features = RuntimeFeatures(auto_title=OwnTitleMiddleware())
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, model, features=features) as harness, browse(harness) as http:
        done = await http.post("/api/threads/t/runs/wait", json=build_run_body("Hi there"))
        await finish_background(harness)
        assert done.json()["title"] == "T!" and await list_titles(http) == ["T!"]
        assert await set_title(http, "Mine") == "Mine"
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Again"))
        assert await list_titles(http) == ["Mine"]
        assert await set_title(http, None) == "T!"
        assert len(model.requests) == 2
