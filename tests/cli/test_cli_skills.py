"""`deerflow skills test`, seen from a terminal."""

import json
from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner

from deerflow.cli.skills import app
from deerflow.domain.errors import NotFound

GOOD = "description: d\nprompt: p\nsteps: [{say: Hello there}]\nexpect: {answer: [Hello]}\n"


def make_skill(folder: Path, **tests: str) -> Path:
    skill = folder / "greeter"
    (skill / "tests").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greeter\ndescription: Greets.\n---\nGreet.\n")
    for name, text in tests.items():
        (skill / "tests" / f"{name}.yaml").write_text(text)
    return skill


def test_each_test_is_a_line_and_the_exit_code_tells_whether_all_passed(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    surroundings = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path), **toolbox_environment}
    bad = GOOD.replace("[Hello]", "[Goodbye]")
    skill = make_skill(tmp_path, good=GOOD, bad=bad, wrong="description: d\n")

    failed = CliRunner().invoke(app, ["test", str(skill)], env=surroundings)
    assert failed.exit_code == 1
    assert "✓ greeter/good" in failed.stdout
    assert "    answer: expected 'Goodbye', came 'Hello there'\n" in failed.stdout
    assert "✗ greeter/wrong: the test cannot be read\n    tests/wrong.yaml:1: prompt: is missing" in failed.stdout

    for name in ("bad", "wrong"):
        (skill / "tests" / f"{name}.yaml").unlink()
    told = CliRunner().invoke(app, ["test", str(skill), "--json"], env=surroundings)
    (result,) = json.loads(told.stdout)
    assert (told.exit_code, result["skill"], result["passed"], result["problems"]) == (0, "greeter", True, [])
    assert [(each["trial"], each["complaints"]) for each in result["verdicts"]] == [("good", [])]


def test_a_skill_that_is_not_there_or_cannot_be_used_is_told_in_a_sentence(tmp_path: Path) -> None:
    surroundings = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}
    missing = CliRunner().invoke(app, ["test", "nothing"], env=surroundings)
    assert isinstance(missing.exception, NotFound) and "there is no skill 'nothing'" in str(missing.exception)
    unsaid = CliRunner().invoke(app, ["test"], env=surroundings)
    assert isinstance(unsaid.exception, NotFound) and "say --all" in str(unsaid.exception)

    skill = make_skill(tmp_path)
    untested = CliRunner().invoke(app, ["test", str(skill)], env=surroundings)
    assert (untested.exit_code, untested.stdout) == (0, "! greeter: has no tests\n")
    (skill / "skill.toml").write_text("[needs]\nhots = []\n")
    refused = CliRunner().invoke(app, ["test", str(skill)], env=surroundings)
    assert refused.exit_code == 1
    assert refused.stdout == "✗ greeter: skill.toml: needs.hots: unknown key; did you mean 'hosts'?\n"
