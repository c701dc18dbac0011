"""`deerflow policy`, as it is typed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deerflow.cli.main import command_for
from deerflow.domain.errors import ConfigError
from deerflow.testing import ScriptedModel, calling
from tests.harness.test_lead_agent import ask, opened
from tests.harness.test_policy import TOOLS

CASES = """
cases:
  - name: a rocket
    call: {tool: launch, arguments: {rocket: Saturn}, source: configured}
    read: [{from: web_fetch, text: hello}]
    expect: deny
    rule: rockets
  - name: another
    call: {tool: page}
    expect: allow
"""
AFTER_READING = """
rules:
  - {name: after-reading, tool: launch, untrusted: true, outcome: ask, reason: strangers have spoken}
"""
RULES = "rules: [{name: rockets, tool: launch, outcome: deny, reason: dear}]"


def typed(*words: str, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(command_for(["policy"]), ["policy", *words], env=env)


def test_the_shipped_rules_pass_their_own_cases() -> None:
    result = typed("test")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].endswith("cases came out as expected")
    assert "✗" not in result.output


def test_cases_of_ones_own_are_judged_and_a_failure_is_an_exit_code(tmp_path: Path) -> None:
    cases, policy = tmp_path / "cases.yaml", tmp_path / "rules.yaml"
    cases.write_text(CASES)
    policy.write_text(RULES)
    assert typed("test", str(cases), "--policy", str(policy)).exit_code == 0
    policy.write_text(RULES.replace("deny", "ask"))
    failed = typed("test", str(cases), "--policy", str(policy))
    assert failed.exit_code == 1
    assert "✗ a rocket: expected deny, came ask by rockets" in failed.output
    told = json.loads(typed("test", str(cases), "--policy", str(policy), "--json").output)
    assert [each["passed"] for each in told] == [False, True]


@pytest.mark.parametrize(
    ("cases", "complaint"),
    [
        ("cases: []", "cases"),
        ("cases: [{name: x, call: {tool: a}, expect: perhaps}]", "expect"),
        ("cases: [{name: x, call: {tool: a, argument: {}}, expect: ask}]", "arguments"),
    ],
)
def test_cases_that_are_none_are_told_with_their_place(tmp_path: Path, cases: str, complaint: str) -> None:
    (tmp_path / "cases.yaml").write_text(cases)
    result = typed("test", str(tmp_path / "cases.yaml"))
    assert isinstance(result.exception, ConfigError)
    assert "cases.yaml" in str(result.exception) and complaint in str(result.exception)


def past(home: Path) -> None:
    """A thread in which a page was read between two launches."""
    launch = calling("launch", rocket="Saturn")
    model = ScriptedModel.saying(launch, "Up.", calling("page"), launch, "Up again.")

    async def happen() -> None:
        async with opened(home, model, tools=TOOLS) as harness:
            await ask(harness, "Launch Saturn")
            await ask(harness, "Read it and launch")

    asyncio.run(happen())


def test_a_dry_run_tells_what_would_have_become_of_past_calls(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("shipped_rules: false")
    past(tmp_path)
    (tmp_path / "config.yaml").write_text(json.dumps({"tools": TOOLS}))
    (tmp_path / "policy.yaml").write_text(AFTER_READING)
    at = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}
    result = typed("dry-run", env=at)
    assert result.exit_code == 0, result.exception
    first, last = result.output.splitlines()
    assert last == "3 calls: 2 allowed, 1 asked about, 0 refused"
    assert '  ask  launch  after-reading  {"rocket": "Saturn"}' in first
    (tmp_path / "rules.yaml").write_text(RULES)
    told = json.loads(typed("dry-run", "--policy", str(tmp_path / "rules.yaml"), "--json", env=at).output)
    assert [(each["tool"], each["outcome"], each["reason"]) for each in told] == [("launch", "deny", "dear")] * 2
    assert typed("dry-run", "--limit", "1", env=at).output.endswith("2 calls: 1 allowed, 1 asked about, 0 refused\n")
