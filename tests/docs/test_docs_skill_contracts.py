"""The skill of the guide on skill contracts passes its test."""

import re
from collections.abc import Mapping
from pathlib import Path

from deerflow.cli.skill_test_runner import SkillTestRunner
from deerflow.cli.skills import test_skill as run_tests
from deerflow.config.load import load

GUIDE = Path(__file__).parents[2] / "docs/guides/skill-contracts.md"


async def test_skill_of_the_guide_passes_its_test_with_its_contract(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    files = re.findall(r"\*\*`([^`]+)`\*\*\n```\w+\n(.*?)```", GUIDE.read_text(), re.S)
    assert [name for name, _ in files] == ["SKILL.md", "scripts/count.py", "skill.toml", "tests/counts.yaml"]
    for name, text in files:
        file = tmp_path / "count-words" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    lines: list[str] = []

    result = await run_tests(
        SkillTestRunner(load(directory=tmp_path, environment=toolbox_environment)),
        tmp_path / "count-words",
        lines.append,
    )

    assert result.passed, lines
    assert lines[0].startswith("✓ count-words/counts")
