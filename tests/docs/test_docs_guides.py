"""Python examples of the guides run."""

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
def test_python_example_of_a_guide_runs(
    guide: Path, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(guide), "exec"), {"__name__": "example"})
