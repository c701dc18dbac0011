"""The cases of the guardrail guide pass with its policy."""

import re
from pathlib import Path

from deerflow.config.sections.guardrails import parse_policy
from deerflow.guardrails.policy import read_cases, run_cases

GUIDE = Path(__file__).parents[2] / "docs/guides/guardrails.md"


async def test_cases_of_the_guide_pass_with_its_policy(tmp_path: Path) -> None:
    policy, cases = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.S)
    (tmp_path / "cases.yaml").write_text(cases)
    results = await run_cases(parse_policy(policy), read_cases(tmp_path / "cases.yaml"))
    assert [result.passed for result in results] == [True, True]
