"""Custom skills in a program."""

from pathlib import Path

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.errors import Conflict, NotFound, SkillRefused
from deerflow.gateway.routers.custom_skills import CustomSkill, CustomSkills, FileContent, InstalledSkill, SkillHistory
from deerflow.testing import ScriptedModel
from tests.skills.hostile_archives import packed
from tests.skills.workshops import ALLOW, skill


def test_a_program_installs_makes_changes_and_brings_back_skills(tmp_path: Path) -> None:
    archive = tmp_path / "sample.skill"
    archive.write_bytes(packed())
    with DeerFlowClient(model=ScriptedModel.saying(ALLOW)) as client:
        installed = client.install_skill(archive)
        assert parses(InstalledSkill, installed) and installed["skill_name"] == "sample"
        with pytest.raises(Conflict):
            client.install_skill(archive)
        (tmp_path / "bad.skill").write_bytes(b"no zip")
        with pytest.raises(SkillRefused, match="no zip file"):
            client.install_skill(str(tmp_path / "bad.skill"))
        made = client.create_custom_skill(skill("own"))
        assert parses(CustomSkill, made) and parses(CustomSkills, client.list_custom_skills())
        edited = client.edit_custom_skill("own", skill("own", "# Two\n"), made["sha256"])
        assert client.get_custom_skill("own") == edited
        client.edit_custom_skill("own", "A\n", path="references/a.md")
        assert parses(FileContent, client.get_custom_skill_file("own", "references/a.md"))
        client.delete_custom_skill("own", "references/a.md")
        client.delete_custom_skill("own")
        history = client.get_skill_history("own")
        assert parses(SkillHistory, history)
        assert [change["action"] for change in history["history"]] == [
            "create",
            "edit",
            "write_file",
            "remove_file",
            "delete",
        ]
        assert client.rollback_skill("own")["content"] == skill("own", "# Two\n")
        client.delete_custom_skill("own")
        client.clear_skill_history("own")
        with pytest.raises(NotFound):
            client.rollback_skill("own")


def parses(model: type, shown: dict[str, object]) -> bool:
    return bool(model.model_validate(shown).model_dump(mode="json") == shown)  # type: ignore[attr-defined]
