"""Tests of a skill run before a change by an agent is accepted."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.config.source import open_source
from deerflow.domain.errors import SkillRefused
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.harness import open_harness
from deerflow.skills.authoring.test_runner import SkillTestProcess
from deerflow.skills.folders import custom_root
from deerflow.testing import Answer, ScriptedModel, calling

SKILL = "---\nname: greeter\ndescription: Greets.\n---\nRun scripts/greet.sh.\n"
TEST = """
description: it greets
prompt: greet
steps:
  - calls:
      - {tool: bash, args: {description: d, command: bash /mnt/skills/custom/greeter/scripts/greet.sh}}
  - say: done
expect:
  tools:
    - {tool: bash, contains: [good morning], fails: false}
"""


REVIEW_ALLOWS = '{"decision": "allow", "reason": "it greets"}'


def rewrite_script(script: str) -> Answer:
    return calling("skill_manage", action="write_file", name="greeter", path="scripts/greet.sh", content=script)


def make_skill(folder: Path, greeting: str, tests: bool = True) -> Path:
    skill = folder / "staged-under-another-name"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (skill / "scripts" / "greet.sh").write_text(f"echo {greeting}\n")
    if tests:
        (skill / "tests").mkdir()
        (skill / "tests" / "greets.yaml").write_text(TEST)
    return skill


async def test_a_change_by_an_agent_is_accepted_only_if_the_tests_of_the_skill_pass(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    overrides = {"skill_evolution": {"enabled": True}, "suggestions": {"enabled": False}}
    environment = {**toolbox_environment, "SECRET_KEY": "not passed on"}
    source = open_source(directory=tmp_path, environment=environment, overrides=overrides)
    staged = make_skill(tmp_path / "made", "good morning")
    skill = custom_root(source.current.home, LOCAL_USER.user_id) / "greeter"
    skill.parent.mkdir(parents=True)
    staged.rename(skill)
    model = ScriptedModel.saying(
        *(rewrite_script("echo good night"), REVIEW_ALLOWS),
        *(rewrite_script("echo good morning, everybody"), REVIEW_ALLOWS),
        "done",
    )

    async with open_harness(source, model) as harness:
        request = RunRequest("t1", [{"type": "human", "content": "make it better"}])
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        assert (await harness.runs.join("t1", run.run_id, LOCAL_USER)).error is None

    refused, accepted = (message.text for message in model.requests[-1].messages if isinstance(message, ToolMessage))
    assert "change of 'greeter' refused; tests of the skill failed:" in refused
    assert "greets: tools[1] (bash, call 1): expected 'good morning', got 'good night'" in refused
    assert accepted == "'scripts/greet.sh' of 'greeter' is written."
    assert (skill / "scripts" / "greet.sh").read_text() == "echo good morning, everybody"


async def test_a_skill_without_tests_is_accepted_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process = SkillTestProcess(ToolboxConfig(), {})

    await process.run_tests("local", "greeter", make_skill(tmp_path, "anything", tests=False))

    assert "has no tests" in caplog.text


async def test_a_change_is_refused_if_the_tests_time_out(tmp_path: Path) -> None:
    process = SkillTestProcess(ToolboxConfig(), {}, timeout_s=0.01)

    with pytest.raises(SkillRefused, match="tests took longer than 0.01 s"):
        await process.run_tests("local", "greeter", make_skill(tmp_path, "good morning"))
