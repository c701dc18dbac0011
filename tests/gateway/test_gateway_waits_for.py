"""`waits_for` in the list of threads."""

from pathlib import Path
from typing import Any

import httpx

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.gateway.support import build_run_body
from tests.support import browse

ASK = calling("ask_clarification", question="For whom?", clarification_type="missing_info", options=["Me", "You"])
TOOLS = [{"name": "abspath", "group": "files", "use": "os.path:abspath", "approval": "always"}]


async def send_message(http: httpx.AsyncClient, text: str) -> None:
    assert (await http.post("/api/threads/t/runs/wait", json=build_run_body(text))).status_code == 200


async def read_waits_for(http: httpx.AsyncClient) -> tuple[str, Any]:
    (thread,) = (await http.post("/api/threads/search", json={})).json()
    assert (await http.get("/api/threads/t")).json()["waits_for"] == thread["waits_for"]
    return thread["status"], thread["waits_for"]


async def test_waits_for_is_set_for_questions_and_approvals_only(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": TOOLS})
    model = ScriptedModel.saying(ASK, "For you, then.", calling("abspath", path="."), "Done.", Stall(Answer("I was")))
    async with open_harness(source, model) as harness, browse(harness) as http:
        await send_message(http, "Write a report")
        assert await read_waits_for(http) == ("idle", "answer")
        await send_message(http, "Me")
        assert await read_waits_for(http) == ("idle", None)

        await send_message(http, "Where are you?")
        assert await read_waits_for(http) == ("interrupted", "approval")
        resume = {"command": {"resume": {"decisions": [{"type": "approve"}]}}}
        assert (await http.post("/api/threads/t/runs/wait", json=resume)).status_code == 200
        assert await read_waits_for(http) == ("idle", None)

        run = (await http.post("/api/threads/t/runs", json=build_run_body("Think"))).json()
        assert await read_waits_for(http) == ("busy", None)
        stop = f"/api/threads/t/runs/{run['run_id']}/cancel"
        assert (await http.post(stop, params={"wait": True})).status_code == 200
        assert await read_waits_for(http) == ("interrupted", None)
