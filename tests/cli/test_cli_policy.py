"""`deerflow policy`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deerflow.cli.main import build_app
from deerflow.domain.errors import ConfigError
from deerflow.testing import ScriptedModel, calling
from tests.harness.support import TOOLS, ask, open_scripted_harness

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
TAINT_POLICY = """
rules:
  - {name: after-reading, tool: launch, untrusted: true, outcome: ask, reason: strangers have spoken}
"""
RULES = "rules: [{name: rockets, tool: launch, outcome: deny, reason: dear}]"


def run_policy(*arguments: str, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(build_app(["policy"]), ["policy", *arguments], env=env)


def test_built_in_rules_pass_their_cases() -> None:
    result = run_policy("test")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].endswith("cases passed")
    assert "✗" not in result.output


def test_custom_cases_are_evaluated_and_a_failure_exits_with_code_1(tmp_path: Path) -> None:
    cases, policy = tmp_path / "cases.yaml", tmp_path / "rules.yaml"
    cases.write_text(CASES)
    policy.write_text(RULES)
    assert run_policy("test", str(cases), "--policy", str(policy)).exit_code == 0
    policy.write_text(RULES.replace("deny", "ask"))
    failed = run_policy("test", str(cases), "--policy", str(policy))
    assert failed.exit_code == 1
    assert "✗ a rocket: expected deny, got ask by rockets" in failed.output
    results = json.loads(run_policy("test", str(cases), "--policy", str(policy), "--json").output)
    assert [each["passed"] for each in results] == [False, True]


@pytest.mark.parametrize(
    ("cases", "error"),
    [
        ("cases: []", "cases"),
        ("cases: [{name: x, call: {tool: a}, expect: perhaps}]", "expect"),
        ("cases: [{name: x, call: {tool: a, argument: {}}, expect: ask}]", "arguments"),
    ],
)
def test_invalid_cases_are_reported_with_file_and_key(tmp_path: Path, cases: str, error: str) -> None:
    (tmp_path / "cases.yaml").write_text(cases)
    result = run_policy("test", str(tmp_path / "cases.yaml"))
    assert isinstance(result.exception, ConfigError)
    assert "cases.yaml" in str(result.exception) and error in str(result.exception)


def run_past_calls(home: Path) -> None:
    """Run a thread that reads a page between two launches."""
    launch = calling("launch", rocket="Saturn")
    model = ScriptedModel.saying(launch, "Up.", calling("page"), launch, "Up again.")

    async def run_thread() -> None:
        async with open_scripted_harness(home, model, tools=TOOLS) as harness:
            await ask(harness, "Launch Saturn")
            await ask(harness, "Read it and launch")

    asyncio.run(run_thread())


def test_dry_run_lists_past_calls_that_would_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("shipped_rules: false")
    run_past_calls(tmp_path)
    (tmp_path / "config.yaml").write_text(json.dumps({"tools": TOOLS}))
    (tmp_path / "policy.yaml").write_text(TAINT_POLICY)
    environment = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}
    result = run_policy("dry-run", env=environment)
    assert result.exit_code == 0, result.exception
    first, last = result.output.splitlines()
    assert last == "3 calls: 2 allowed, 1 need approval, 0 denied"
    assert '  ask  launch  after-reading  {"rocket": "Saturn"}' in first
    (tmp_path / "rules.yaml").write_text(RULES)
    results = json.loads(
        run_policy("dry-run", "--policy", str(tmp_path / "rules.yaml"), "--json", env=environment).output
    )
    assert [(each["tool"], each["outcome"], each["reason"]) for each in results] == [("launch", "deny", "dear")] * 2
    assert run_policy("dry-run", "--limit", "1", env=environment).output.endswith(
        "2 calls: 1 allowed, 1 need approval, 0 denied\n"
    )
