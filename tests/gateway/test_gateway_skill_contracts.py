"""Skill contracts over HTTP and in the client."""

from pathlib import Path

import pytest

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.gateway.routers.skills import SkillDetails
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.skills.support import write_skill
from tests.support import browse


async def test_a_contract_is_returned_and_an_invalid_one_rejects_the_skill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    public = tmp_path / "skills/public"
    write_skill(public, "careful")
    (public / "careful" / "skill.toml").write_text('[needs]\nhosts = ["example.org"]\n[budget]\nseconds = 60\n')
    write_skill(public, "careless")
    (public / "careless" / "skill.toml").write_text("[needs]\nhots = []\n")
    config = {"skills": {"path": str(tmp_path / "skills")}}
    source = open_source(directory=tmp_path, environment={}, overrides=config)

    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        shown = (await http.get("/api/skills/careful")).json()
        (refused,) = (await http.get("/api/skills")).json()["refused"]

    assert shown["contract"] == {
        "needs": {"tools": None, "paths": None, "hosts": ["example.org"], "environment": [], "packages": []},
        "budget": {"seconds": 60.0, "max_tool_calls": None},
    }
    assert refused["reason"] == "skill.toml: needs.hots: unknown key; did you mean 'hosts'?"
    with DeerFlowClient(config, model=ScriptedModel.saying()) as client:
        details = client.get_skill("careful")
        assert details == shown == SkillDetails.model_validate(details, strict=False).model_dump(mode="json")
