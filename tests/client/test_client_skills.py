"""Skills in a program."""

from pathlib import Path

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.gateway.routers.skills import SkillDetails, Skills, SkillSummary
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.skills.packs import write_skill
from tests.support import browse


async def test_a_program_sees_what_the_wire_shows(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/public", "tidy-up")
    write_skill(tmp_path / "skills/public", "off")
    write_skill(tmp_path / "skills/public", "No", folder="no")
    config = {"skills": {"path": str(tmp_path / "skills")}}
    with DeerFlowClient(config, model=ScriptedModel.saying()) as client:
        switched = client.update_skill("off", enabled=False)
        assert SkillSummary.model_validate(switched).model_dump(mode="json") == switched
        assert [skill["name"] for skill in client.list_skills(enabled_only=True)["skills"]] == ["tidy-up"]
        listed, shown = client.list_skills(), client.get_skill("tidy-up")
        assert Skills.model_validate(listed).model_dump(mode="json") == listed == client.reload_skills()
        assert SkillDetails.model_validate(shown).model_dump(mode="json") == shown
        source = open_source(directory=tmp_path, environment={}, overrides=config)
        async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
            assert (await http.get("/api/skills")).json() == listed
            assert (await http.get("/api/skills/tidy-up")).json() == shown


def test_a_program_can_limit_an_agent_to_some_skills(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/public", "tidy-up")
    write_skill(tmp_path / "skills/public", "other")
    config, model = {"skills": {"path": str(tmp_path / "skills")}}, ScriptedModel.saying("Ok.", "Ok.")
    with DeerFlowClient(config, model=model, available_skills={"tidy-up"}) as client:
        client.chat("Hello")
        prompt = model.requests[0].messages[0].text
    assert "<name>tidy-up</name>" in prompt and "<name>other</name>" not in prompt
