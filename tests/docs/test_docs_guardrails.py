"""The policy and the cases in the guide are what it says they are."""

import re
from pathlib import Path

from deerflow.config.sections.guardrails import parse_policy
from deerflow.guardrails.policy_tests import read_cases, run_cases

GUIDE = Path(__file__).parents[2] / "docs/guides/guardrails.md"


async def test_the_cases_in_the_guide_come_out_under_its_policy(tmp_path: Path) -> None:
    policy, cases = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.S)
    (tmp_path / "cases.yaml").write_text(cases)
    judged = await run_cases(parse_policy(policy), read_cases(tmp_path / "cases.yaml"))
    assert [each.passed for each in judged] == [True, True]
