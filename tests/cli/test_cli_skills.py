"""`deerflow skills`."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deerflow.cli.skills import app, update_skill
from deerflow.client import DeerFlowClient
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.testing import ScriptedModel
from tests.certificates import make_certificate, read_certificate
from tests.cli.skill_add_scenario import ADDRESS, HOST
from tests.harness.isolated_network import run_in_isolated_network
from tests.skills.skill_host import REPOSITORY, SKILL, open_skill_host
from tests.skills.support import ALLOW

PASSING_TEST = "description: d\nprompt: p\nsteps: [{say: Hello there}]\nexpect: {answer: [Hello]}\n"


def make_skill(folder: Path, **tests: str) -> Path:
    skill = folder / "greeter"
    (skill / "tests").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greeter\ndescription: Greets.\n---\nGreet.\n")
    for name, text in tests.items():
        (skill / "tests" / f"{name}.yaml").write_text(text)
    return skill


def test_each_test_is_one_line_and_a_failure_exits_with_code_1(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    environment = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path), **toolbox_environment}
    failing = PASSING_TEST.replace("[Hello]", "[Goodbye]")
    skill = make_skill(tmp_path, good=PASSING_TEST, bad=failing, wrong="description: d\n")

    failed = CliRunner().invoke(app, ["test", str(skill)], env=environment)
    assert failed.exit_code == 1
    assert "✓ greeter/good" in failed.stdout
    assert "    answer: expected 'Goodbye', got 'Hello there'\n" in failed.stdout
    assert "✗ greeter/wrong: invalid test\n    tests/wrong.yaml:1: prompt: is missing" in failed.stdout

    for name in ("bad", "wrong"):
        (skill / "tests" / f"{name}.yaml").unlink()
    passed = CliRunner().invoke(app, ["test", str(skill), "--json"], env=environment)
    (result,) = json.loads(passed.stdout)
    assert (passed.exit_code, result["skill"], result["passed"], result["problems"]) == (0, "greeter", True, [])
    assert [(verdict["trial"], verdict["complaints"]) for verdict in result["verdicts"]] == [("good", [])]


def test_missing_and_invalid_skills_are_reported_in_one_line(tmp_path: Path) -> None:
    environment = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}
    missing = CliRunner().invoke(app, ["test", "nothing"], env=environment)
    assert isinstance(missing.exception, NotFound) and "skill 'nothing' not found" in str(missing.exception)
    unnamed = CliRunner().invoke(app, ["test"], env=environment)
    assert isinstance(unnamed.exception, NotFound) and "use --all" in str(unnamed.exception)

    skill = make_skill(tmp_path)
    untested = CliRunner().invoke(app, ["test", str(skill)], env=environment)
    assert (untested.exit_code, untested.stdout) == (0, "! greeter: no tests\n")
    (skill / "skill.toml").write_text("[needs]\nhots = []\n")
    refused = CliRunner().invoke(app, ["test", str(skill)], env=environment)
    assert refused.exit_code == 1
    assert refused.stdout == "✗ greeter: skill.toml: needs.hots: unknown key; did you mean 'hosts'?\n"


def test_update_prints_a_diff_and_installs_what_was_confirmed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        open_skill_host(tmp_path / "host") as host,
        DeerFlowClient(model=ScriptedModel.saying(ALLOW, ALLOW)) as client,
    ):
        first = host.commit({"SKILL.md": SKILL.format(body="Boil.")})
        client._session.harness.resources.skill_downloader = host.downloader()
        client.skills.install(REPOSITORY)
        update_skill(client, "tea", confirm=lambda: True)
        assert capsys.readouterr().out == f"tea is up to date: {first} of {REPOSITORY}\n"

        second = host.commit({"SKILL.md": SKILL.format(body="Steep.")})
        update_skill(client, "tea", confirm=lambda: False)
        shown = capsys.readouterr()
        assert "-Boil.\n+Steep.\n" in shown.out
        assert shown.err == f"tea: {first} -> {second} of {REPOSITORY}\nnothing was changed\n"
        assert "Boil." in client.custom_skills.get("tea")["content"]

        update_skill(client, "tea", confirm=lambda: True)
        assert capsys.readouterr().out.endswith("Skill 'tea' installed\n")
        assert "Steep." in client.custom_skills.get("tea")["content"]
        client.custom_skills.create("---\nname: own\ndescription: Mine.\n---\n")
        with pytest.raises(Conflict, match="was not installed from a URL"):
            update_skill(client, "own", confirm=lambda: True)


def test_add_rejects_addresses_with_credentials(tmp_path: Path) -> None:
    environment = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}
    refused = CliRunner().invoke(app, ["add", "https://ada:secret@git.example.org/tea"], env=environment)
    assert isinstance(refused.exception, InvalidRequest) and "secret" not in str(refused.exception)


@pytest.mark.slow
async def test_add_installs_a_skill_of_a_git_host_and_update_follows_it(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, [HOST])
    trusted, hosts = tmp_path / "trusted.crt", tmp_path / "hosts"
    trusted.write_text(read_certificate(certificate))
    hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n")
    files = {"/etc/ssl/certs/ca-certificates.crt": trusted, "/etc/hosts": hosts}

    result = await run_in_isolated_network("tests.cli.skill_add_scenario", tmp_path, files)

    first, second = result["commits"]
    assert result["added"] == {"code": 0, "output": "Skill 'tea' installed\n", "errors": ""}
    assert result["updated"]["errors"] == f"tea: {first} -> {second} of https://{HOST}/tea.git\n"
    assert result["updated"]["code"] == 0 and "-Boil.\n+Steep.\n" in result["updated"]["output"]
    assert result["missing"]["code"] == 1 and result["missing"]["output"] == ""
    assert len(result["missing"]["errors"].splitlines()) == 1
    texts = {name.rpartition("/")[2]: text for name, text in result["installed"].items()}
    assert texts["cups.md"] == "Two.\n" and "Steep." in texts["SKILL.md"]
    assert second in texts["skills.lock"]
    assert result["reviews"] == 2
