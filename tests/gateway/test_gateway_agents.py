"""Custom agents over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from deerflow.config.agents import CustomAgent
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
    "soul": "You count — 数.",
}


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"name": "a/b"}, "an agent's name is"),
        ({"name": None}, "body.name: "),
        ({"modle": "x"}, "body.modle: "),
        ({"model_settings": {"temperature": 3}}, "body.model_settings.temperature: "),
        ({"skills": "research"}, "body.skills: "),
        ({"reasoning_effort": "extreme"}, "body.reasoning_effort: "),
        ({"soul": None}, "body.soul: "),
    ],
)
async def test_a_field_that_makes_no_sense_is_named(
    harness_saying: OpenHarness, wrong: dict[str, Any], place: str
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        response = await http.post("/api/agents", json={**ADA, **wrong})
        assert response.status_code == 422 and response.json()["error"] == "InvalidRequest"
        assert place in response.json()["detail"]
        assert (await http.get("/api/agents")).json() == {"agents": []}


async def test_what_is_not_there_taken_or_renamed_is_refused(harness_saying: OpenHarness) -> None:
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
        assert renamed.status_code == 422 and "'ada' cannot be called 'bob'" in renamed.json()["detail"]


async def test_agents_of_others_are_not_there_and_those_for_everybody_only_read(
    harness_saying: OpenHarness,
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        harness.custom_agents.create("somebody", CustomAgent("theirs"))
        share(harness.source.current.home, "shared")
        assert [agent["name"] for agent in (await http.get("/api/agents")).json()["agents"]] == ["shared"]
        assert (await http.get("/api/agents/theirs")).status_code == 404
        assert (await http.get("/api/agents/shared")).json()["soul"] == "Everybody's."
        assert (await http.put("/api/agents/shared", json={"soul": "Mine."})).status_code == 409
        assert (await http.delete("/api/agents/shared")).status_code == 409


def share(home: Path, name: str) -> None:
    (home / "agents" / name).mkdir(parents=True)
    (home / "agents" / name / "SOUL.md").write_text("Everybody's.")


async def test_files_that_were_edited_wrongly_are_told_with_their_place(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await http.post("/api/agents", json=ADA)
        (harness.source.current.home / "users/local/agents/ada/config.yaml").write_text("modle: x\n")
        response = await http.get("/api/agents/ada")
        assert response.status_code == 503 and "config.yaml:1: modle: unknown key" in response.json()["detail"]
        assert (await http.get("/api/agents/check", params={"name": "ada"})).json()["available"] is False


async def test_an_agent_is_made_shown_changed_and_removed(harness_saying: OpenHarness) -> None:
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


async def test_a_name_is_checked_before_it_is_taken(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        free = await http.get("/api/agents/check", params={"name": "ada"})
        assert free.json() == {"name": "ada", "available": True}
        await http.post("/api/agents", json={"name": "ada"})
        taken = await http.get("/api/agents/check", params={"name": "ada"})
        assert taken.json() == {"name": "ada", "available": False}
        assert (await http.get("/api/agents/check", params={"name": "a b"})).status_code == 422


async def test_an_agent_made_over_http_answers_at_once_and_a_change_counts_for_the_next_run(
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
