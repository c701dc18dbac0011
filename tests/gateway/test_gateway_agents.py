"""Custom agents over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from deerflow.config.sections.agents import CustomAgent
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse

ADA: dict[str, Any] = {
    "name": "ada",
    "description": "Counts",
    "model": None,
    "tool_groups": ["web"],
    "skills": [],
    "model_settings": {"temperature": 0.5, "max_tokens": None},
    "thinking_enabled": False,
    "reasoning_effort": "low",
    "starters": ["Count to ten"],
    "soul": "You count — 数.",
    "shared_by": None,
    "access": None,
    "has_editors": False,
}


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"name": "a/b"}, "an agent name is"),
        ({"name": None}, "body.name: "),
        ({"modle": "x"}, "body.modle: "),
        ({"model_settings": {"temperature": 3}}, "body.model_settings.temperature: "),
        ({"skills": "research"}, "body.skills: "),
        ({"reasoning_effort": "extreme"}, "body.reasoning_effort: "),
        ({"starters": [""]}, "body.starters[0]: "),
        ({"starters": ["x"] * 7}, "body.starters: "),
        ({"soul": None}, "body.soul: "),
    ],
)
async def test_an_invalid_field_is_named(harness_saying: OpenHarness, wrong: dict[str, Any], place: str) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        response = await http.post("/api/agents", json={**ADA, **wrong})
        assert response.status_code == 422 and response.json()["error"] == "InvalidRequest"
        assert place in response.json()["detail"]
        assert (await http.get("/api/agents")).json() == {"agents": []}


async def test_missing_existing_and_renamed_agents_are_rejected(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        for attempt in (
            http.get("/api/agents/ada"),
            http.put("/api/agents/ada", json={}),
            http.delete("/api/agents/ada"),
        ):
            response = await attempt
            assert response.status_code == 404 and response.json()["detail"] == "there is no agent 'ada'"
        await http.post("/api/agents", json=ADA)
        again = await http.post("/api/agents", json=ADA)
        assert again.status_code == 409 and again.json()["error"] == "Conflict"
        renamed = await http.put("/api/agents/ada", json={"name": "bob"})
        assert renamed.status_code == 422 and "'ada' cannot be renamed to 'bob'" in renamed.json()["detail"]


async def test_agents_of_other_users_are_hidden_and_shared_ones_read_only(
    harness_saying: OpenHarness,
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        harness.core.custom_agents.create("somebody", CustomAgent("theirs"))
        add_shared_agent(harness.core.source.current.home, "shared")
        assert [agent["name"] for agent in (await http.get("/api/agents")).json()["agents"]] == ["shared"]
        assert (await http.get("/api/agents/theirs")).status_code == 404
        assert (await http.get("/api/agents/shared")).json()["soul"] == "Everybody's."
        assert (await http.put("/api/agents/shared", json={"soul": "Mine."})).status_code == 409
        assert (await http.delete("/api/agents/shared")).status_code == 409


def add_shared_agent(home: Path, name: str) -> None:
    (home / "agents" / name).mkdir(parents=True)
    (home / "agents" / name / "SOUL.md").write_text("Everybody's.")


async def test_invalid_agent_files_are_reported_with_their_location(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await http.post("/api/agents", json=ADA)
        (harness.core.source.current.home / "users/local/agents/ada/config.yaml").write_text("modle: x\n")
        response = await http.get("/api/agents/ada")
        assert response.status_code == 503 and "config.yaml:1: modle: unknown key" in response.json()["detail"]
        assert (await http.get("/api/agents/check", params={"name": "ada"})).json()["available"] is False


async def test_agents_are_created_read_updated_and_deleted(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        made = await http.post("/api/agents", json=ADA)
        assert made.status_code == 201 and made.json() == ADA
        assert (await http.get("/api/agents/ada")).json() == ADA
        changed = await http.put("/api/agents/ada", json={"soul": "You add.", "skills": None, "model": "demo"})
        assert changed.json() == {**ADA, "soul": "You add.", "skills": None, "model": "demo"}
        assert (await http.get("/api/agents")).json() == {"agents": [changed.json()]}
        assert (await http.put("/api/agents/ada", json=ADA)).json() == ADA  # what was shown can be sent back
        assert (await http.delete("/api/agents/ada")).status_code == 204
        assert (await http.get("/api/agents")).json() == {"agents": []}


async def test_name_availability_is_checked(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        free = await http.get("/api/agents/check", params={"name": "ada"})
        assert free.json() == {"name": "ada", "available": True}
        await http.post("/api/agents", json={"name": "ada"})
        taken = await http.get("/api/agents/check", params={"name": "ada"})
        assert taken.json() == {"name": "ada", "available": False}
        assert (await http.get("/api/agents/check", params={"name": "a b"})).status_code == 422


async def test_a_new_agent_answers_and_updates_apply_to_the_next_run(
    harness_saying: OpenHarness,
) -> None:
    model = ScriptedModel.saying("One.", "Two.")
    async with harness_saying(model) as harness, browse(harness) as http:
        await http.post("/api/agents", json=ADA)
        ask = {"input": {"messages": [{"type": "human", "content": "Hi"}]}, "context": {"agent_name": "ada"}}
        await http.post("/api/threads/t1/runs/wait", json=ask)
        await http.put("/api/agents/ada", json={"soul": "You add."})
        await http.post("/api/threads/t1/runs/wait", json=ask)
        assert [
            soul in request.messages[0].text
            for request, soul in zip(model.requests, ("You count — 数.", "You add."), strict=True)
        ] == [True, True]
