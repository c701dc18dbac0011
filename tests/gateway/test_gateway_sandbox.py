"""Sandbox status, and decisions on pending commands, over HTTP."""

from pathlib import Path

import httpx

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel, calling, in_parallel
from tests.support import OpenHarness, browse

HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
BASH = {"name": "bash", "group": "bash", "use": "deerflow.sandbox.tools:bash_tool", "approval": "always"}
APPROVE = {"type": "approve"}
INVALID_ANSWERS = (
    "yes",
    {},
    [APPROVE, APPROVE],
    {"decisions": []},
    {"decisions": [APPROVE]},
    {"decisions": [APPROVE, APPROVE, APPROVE]},
    {"decisions": [APPROVE, {"type": "shrug"}]},
    {"decisions": [APPROVE, {"type": "edit"}]},
)


async def test_the_isolation_of_commands_is_returned(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        status = (await http.get("/api/sandbox")).json()
    assert status["detail"] and status == {
        "tier": "isolated", "network": "none", "code": None, "detail": status["detail"], "problem": None,
        "remedy": None, "toolbox": status["toolbox"],
    }  # fmt: skip


async def test_the_state_of_the_python_packages_is_returned(tmp_path: Path) -> None:
    for enabled, status in ((True, "missing"), (False, "off")):
        settings = {"toolbox": {"enabled": enabled}}
        cache = {"XDG_CACHE_HOME": str(tmp_path)}
        source = open_source(directory=tmp_path, environment=cache, overrides={"sandbox": settings})
        async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
            found = (await http.get("/api/sandbox")).json()["toolbox"]
        assert found == {"status": status, "installed": 0, "total": 0}


async def test_missing_isolation_is_returned_with_a_fix(tmp_path: Path) -> None:
    settings = {"use": "tests.sandbox.support:UnisolatedProvider", "allow_host_bash": True}
    source = open_source(directory=tmp_path, environment={}, overrides={"sandbox": settings})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        status = (await http.get("/api/sandbox")).json()
    assert (status["tier"], status["code"]) == ("host", "bubblewrap_missing")
    assert status["problem"] == "bubblewrap was not found"
    assert "without isolation" in status["detail"] and "install bubblewrap" in status["remedy"]


async def test_invalid_decisions_are_rejected_and_a_valid_one_still_works(tmp_path: Path) -> None:
    reply = in_parallel(*(calling("bash", description="x", command=f"echo {word}") for word in ("one", "two")))
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": [BASH]})
    async with open_harness(source, ScriptedModel.saying(reply, "Done.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t1/runs/wait", json=HI)
        for answer in INVALID_ANSWERS:
            refused = await resume(http, answer)
            assert refused.status_code == 422, answer
            assert "does not decide what waits (bash, bash)" in refused.text

        taken = await resume(http, {"decisions": [APPROVE, {"type": "reject", "message": "not this one"}]})
        assert taken.status_code == 200, taken.text
        messages = (await http.get("/api/threads/t1/state")).json()["values"]["messages"]
        rejected, done = sorted((each for each in messages if each["type"] == "tool"), key=lambda each: each["status"])
        assert "not this one" in rejected["content"] and done["content"] == "one"
        assert messages[-1]["content"] == "Done."


async def test_a_decision_without_a_pending_call_is_rejected(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t1/runs/wait", json=HI)
        refused = await resume(http, {"decisions": [APPROVE]})
        assert refused.status_code == 409
        assert "nothing waits for an answer in this thread" in refused.text
        assert (await resume(http, "x", thread="nobody")).status_code == 404


async def resume(http: httpx.AsyncClient, answer: object, thread: str = "t1") -> httpx.Response:
    return await http.post(f"/api/threads/{thread}/runs/wait", json={"command": {"resume": answer}})
