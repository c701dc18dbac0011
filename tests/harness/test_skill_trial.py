"""A change that an agent made to a skill, tried out before it is accepted."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from deerflow.config.load import load
from deerflow.domain.errors import SkillRefused
from deerflow.harness.skill_trial import TrialInChild

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


def make_skill(folder: Path, words: str, tests: bool = True) -> Path:
    skill = folder / "staged-under-another-name"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (skill / "scripts" / "greet.sh").write_text(f"echo {words}\n")
    if tests:
        (skill / "tests").mkdir()
        (skill / "tests" / "greets.yaml").write_text(TEST)
    return skill


async def test_a_change_with_which_the_skills_tests_pass_is_accepted_and_another_refused_with_the_reason(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    trial = TrialInChild(load(directory=tmp_path, environment={**toolbox_environment, "SECRET_KEY": "not passed on"}))

    await trial.try_out("local", "greeter", make_skill(tmp_path / "good", "good morning"))
    with pytest.raises(SkillRefused) as refused:
        await trial.try_out("local", "greeter", make_skill(tmp_path / "bad", "good night"))

    assert "the change of 'greeter' was not accepted, for the tests of the skill fail:" in str(refused.value)
    assert "greets: tools[1] (bash, call 1): expected 'good morning', came 'good night'" in str(refused.value)


async def test_a_skill_without_tests_is_accepted_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trial = TrialInChild(load(directory=tmp_path, environment={}))

    await trial.try_out("local", "greeter", make_skill(tmp_path, "anything", tests=False))

    assert "has no tests that could fail" in caplog.text


async def test_tests_that_take_too_long_refuse_the_change(tmp_path: Path) -> None:
    trial = TrialInChild(load(directory=tmp_path, environment={}), limit_s=0.01)

    with pytest.raises(SkillRefused, match="they took longer than 0.01 s"):
        await trial.try_out("local", "greeter", make_skill(tmp_path, "good morning"))
