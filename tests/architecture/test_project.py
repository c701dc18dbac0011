"""The files around the code."""

import re
import subprocess
import tomllib
from pathlib import Path

import deerflow

ROOT = Path(__file__).parents[2]
TOOLBOX = ROOT / "src/deerflow/sandbox/local/toolbox.lock"


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == deerflow.__version__
    assert f"## {deerflow.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_readmes_are_short_and_have_the_same_content() -> None:
    english, chinese = (ROOT / "README.md").read_text(), (ROOT / "README.zh.md").read_text()
    assert english.count("\n") <= 150 and chinese.count("\n") <= 150
    assert find_code_blocks(english) == find_code_blocks(chinese)
    assert "not affiliated with ByteDance" in english


def test_decision_records_are_short() -> None:
    long = [path.name for path in (ROOT / "docs/decisions").glob("*.md") if path.read_text().count("\n") > 30]
    assert long == []


def test_lock_files_name_no_host() -> None:
    locks = [*ROOT.glob("*.lock"), *(ROOT / "scripts/locks").glob("*.lock"), TOOLBOX, ROOT / "web/package-lock.json"]
    named = [path.name for path in locks if re.search(r'https?://[^"]*\.(?:tgz|whl)|index-url', path.read_text())]
    assert len(locks) >= 6
    assert named == []


def test_links_between_documents_lead_somewhere() -> None:
    pages = [
        path for path in list_tracked_files() if path.suffix == ".md" and "data" not in path.relative_to(ROOT).parts
    ]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        # What stands in a block of code is an example.
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", remove_code(page.read_text()))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def remove_code(text: str) -> str:
    return re.sub(r"^(`{3,}).*?^\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)


def find_code_blocks(text: str) -> list[str]:
    """Return code blocks without comments, which are translated."""
    blocks = re.findall(r"```\w+\n(.*?)```", text, re.S)
    return [re.sub(r"\s*#.*", "", block) for block in blocks]


def list_tracked_files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_nothing_lies_around_at_the_top() -> None:
    known = {"README.md", "README.zh.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "Makefile"}
    known |= {"pyproject.toml", "requirements.lock", "requirements-dev.lock", "langgraph.json"}
    known |= {"config.example.yaml", "extensions_config.example.json", ".gitignore", ".gitattributes"}
    assert {path.name for path in list_tracked_files() if path.parent == ROOT} <= known
