"""Chinese names of the built-in skills on the page."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r'^  "?([a-z-]+)"?: \[', re.M)


def test_every_built_in_skill_has_a_chinese_name() -> None:
    named = ENTRY.findall((ROOT / "web/src/i18n/skillTexts.ts").read_text())
    assert sorted(named) == sorted(file.parent.name for file in (ROOT / "skills/public").glob("*/SKILL.md"))
