"""`waits_for` in the list of threads."""

from pathlib import Path
from typing import Any

import httpx

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.support import browse

ASK = calling("ask_clarification", question="For whom?", clarification_type="missing_info", options=["Me", "You"])
TOOLS = [{"name": "abspath", "group": "files", "use": "os.path:abspath", "approval": "always"}]


def asking(text: str) -> dict[str, Any]:
    return {"input": {"messages": [{"type": "human", "content": text}]}}


async def say(http: httpx.AsyncClient, text: str) -> None:
    assert (await http.post("/api/threads/t/runs/wait", json=asking(text))).status_code == 200


async def listed(http: httpx.AsyncClient) -> tuple[str, Any]:
    (thread,) = (await http.post("/api/threads/search", json={})).json()
    assert (await http.get("/api/threads/t")).json()["waits_for"] == thread["waits_for"]
    return thread["status"], thread["waits_for"]


async def test_waits_for_is_set_for_questions_and_approvals_only(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": TOOLS})
    model = ScriptedModel.saying(ASK, "For you, then.", calling("abspath", path="."), "Done.", Stall(Answer("I was")))
    async with open_harness(source, model) as harness, browse(harness) as http:
        await say(http, "Write a report")
        assert await listed(http) == ("idle", "answer")
        await say(http, "Me")
        assert await listed(http) == ("idle", None)

        await say(http, "Where are you?")
        assert await listed(http) == ("interrupted", "approval")
        resume = {"command": {"resume": {"decisions": [{"type": "approve"}]}}}
        assert (await http.post("/api/threads/t/runs/wait", json=resume)).status_code == 200
        assert await listed(http) == ("idle", None)

        run = (await http.post("/api/threads/t/runs", json=asking("Think"))).json()
        assert await listed(http) == ("busy", None)
        stop = f"/api/threads/t/runs/{run['run_id']}/cancel"
        assert (await http.post(stop, params={"wait": True})).status_code == 200
        assert await listed(http) == ("interrupted", None)
