"""Skills as the reference validator of the Agent Skills format sees them."""

import subprocess
from pathlib import Path

import pytest

from deerflow.skills.folders import builtin_root
from tests.skills.support import run_script
from tests.support import dependencies, install_program

pytestmark = pytest.mark.external


def validate(folder: Path) -> str:
    """Return the complaints of `agentskills validate`; empty if it accepts the skill."""
    program = install_program(dependencies()["pypi"]["skill_validator"], "agentskills")
    done = subprocess.run([program, "validate", folder], capture_output=True, text=True, timeout=30, check=False)
    return done.stderr if done.returncode else ""


def test_reference_validator_accepts_every_builtin_skill() -> None:
    folders = sorted(file.parent for file in builtin_root().glob("*/SKILL.md"))

    assert len(folders) >= 21
    assert [complaints for folder in folders if (complaints := validate(folder))] == []


def test_reference_validator_accepts_what_skill_creator_writes(tmp_path: Path) -> None:
    said = "Counts words: text in, numbers out. Use when somebody asks how long it is. Not for PDF."
    run_script("skill-creator", "init_skill.py", "word-count", "--description", said, "--into", tmp_path)

    assert validate(tmp_path / "word-count") == ""


def test_reference_validator_rejects_tools_in_brackets(tmp_path: Path) -> None:
    folder = tmp_path / "tea"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: tea\ndescription: Brews tea.\nallowed-tools: [bash]\n---\n")

    assert "disallowed" in validate(folder)
