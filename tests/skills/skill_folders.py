"""Skill folders for tests."""

from pathlib import Path


def write_skill(
    root: Path,
    name: str,
    description: str = "Does one thing well.",
    *,
    body: str = "# How\n",
    folder: str = "",
    more: str = "",
) -> Path:
    """Write a skill below `root` and return its folder. `more` is appended to the header."""
    path = root / (folder or name)
    path.mkdir(parents=True, exist_ok=True)
    header = f"---\nname: {name}\ndescription: {description}\n{more}---\n\n"
    (path / "SKILL.md").write_text(header + body, encoding="utf-8")
    return path
