"""Where the tests of a skill lie."""

from pathlib import Path

FOLDER = "tests"


def find_trials(skill: Path) -> list[Path]:
    """The test files of a skill, by name."""
    folder = skill / FOLDER
    return sorted(file for file in folder.glob("*.yaml") if file.is_file()) if folder.is_dir() else []
