"""Folders of skills for tests."""

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
    """A skill below `root`, and the folder it is in; `more` are further lines of its header."""
    place = root / (folder or name)
    place.mkdir(parents=True, exist_ok=True)
    header = f"---\nname: {name}\ndescription: {description}\n{more}---\n\n"
    (place / "SKILL.md").write_text(header + body, encoding="utf-8")
    return place
