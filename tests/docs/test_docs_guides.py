"""All Python in the guides runs."""

import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[2] / "docs/guides"
EXAMPLES = [
    pytest.param(guide, code, id=f"{guide.stem}-{number}")
    for guide in sorted(GUIDES.glob("*.md"))
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", guide.read_text(), re.S), start=1)
]


@pytest.mark.parametrize(("guide", "code"), EXAMPLES)
@pytest.mark.slow
def test_an_example_does_what_it_says(guide: Path, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(guide), "exec"), {"__name__": "example"})
