"""Skills and custom skills from Python."""

from pathlib import Path

import pytest

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.domain.errors import Conflict, NotFound, SkillRefused
from deerflow.gateway.routers.skills import (
    CustomSkill,
    CustomSkills,
    FileContent,
    InstalledSkill,
    SkillDetails,
    SkillHistory,
    Skills,
    SkillSummary,
)
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.client.support import is_valid
from tests.skills.hostile_archives import build_archive
from tests.skills.support import ALLOW, build_skill_md, write_skill
from tests.support import browse


async def test_skills_have_the_shape_of_the_http_api(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/public", "tidy-up")
    write_skill(tmp_path / "skills/public", "off")
    write_skill(tmp_path / "skills/public", "No", folder="no")
    config = {"skills": {"path": str(tmp_path / "skills")}}
    with DeerFlowClient(config, model=ScriptedModel.saying()) as client:
        switched = client.skills.update("off", enabled=False)
        assert SkillSummary.model_validate(switched).model_dump(mode="json") == switched
        assert [skill["name"] for skill in client.skills.list(enabled_only=True)["skills"]] == ["tidy-up"]
        listed, shown = client.skills.list(), client.skills.get("tidy-up")
        assert Skills.model_validate(listed).model_dump(mode="json") == listed == client.skills.reload()
        assert SkillDetails.model_validate(shown).model_dump(mode="json") == shown
        source = open_source(directory=tmp_path, environment={}, overrides=config)
        async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
            assert (await http.get("/api/skills")).json() == listed
            assert (await http.get("/api/skills/tidy-up")).json() == shown


def test_available_skills_limit_the_agent(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/public", "tidy-up")
    write_skill(tmp_path / "skills/public", "other")
    config, model = {"skills": {"path": str(tmp_path / "skills")}}, ScriptedModel.saying("Ok.", "Ok.")
    with DeerFlowClient(config, model=model, available_skills={"tidy-up"}) as client:
        client.chat("Hello")
        prompt = model.requests[0].messages[0].text
    assert "<name>tidy-up</name>" in prompt and "<name>other</name>" not in prompt


def test_skills_are_installed_created_edited_and_restored(tmp_path: Path) -> None:
    archive = tmp_path / "sample.skill"
    archive.write_bytes(build_archive())
    with DeerFlowClient(model=ScriptedModel.saying(ALLOW)) as client:
        installed = client.skills.install(archive)
        assert is_valid(InstalledSkill, installed) and installed["skill_name"] == "sample"
        with pytest.raises(Conflict):
            client.skills.install(archive)
        (tmp_path / "bad.skill").write_bytes(b"no zip")
        with pytest.raises(SkillRefused, match="not a zip file"):
            client.skills.install(str(tmp_path / "bad.skill"))
        made = client.custom_skills.create(build_skill_md("own"))
        assert is_valid(CustomSkill, made) and is_valid(CustomSkills, client.custom_skills.list())
        edited = client.custom_skills.edit("own", build_skill_md("own", "# Two\n"), made["sha256"])
        assert client.custom_skills.get("own") == edited
        client.custom_skills.edit("own", "A\n", path="references/a.md")
        assert is_valid(FileContent, client.custom_skills.get_file("own", "references/a.md"))
        client.custom_skills.delete("own", "references/a.md")
        client.custom_skills.delete("own")
        history = client.custom_skills.get_history("own")
        assert is_valid(SkillHistory, history)
        assert [change["action"] for change in history["history"]] == [
            "create",
            "edit",
            "write_file",
            "remove_file",
            "delete",
        ]
        assert client.custom_skills.rollback("own")["content"] == build_skill_md("own", "# Two\n")
        client.custom_skills.delete("own")
        client.custom_skills.clear_history("own")
        with pytest.raises(NotFound):
            client.custom_skills.rollback("own")
