"""List the skills that are installed and switched on, or those that fit a task, the best first."""

import argparse
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

try:
    import yaml
except ImportError:
    yaml = None

ROOT = Path("/mnt/skills")
FENCE = re.compile(r"\A\ufeff?\s*---[ \t]*\r?\n(.*?)^---[ \t]*\r?$(.*)", re.DOTALL | re.MULTILINE)
COMMON = re.compile(
    r"an?|and|are|as|at|be|by|can|do|for|from|how|i|in|is|it|me|my|of|on|or|some|that|the|this|to|want|with"
)
WEIGHTS = (5.0, 2.0, 0.5)
"""Of a word in the name, the description, the instructions."""


@dataclass(frozen=True)
class Skill:
    """An installed skill."""

    name: str
    category: str
    location: str
    description: str
    score: float = 0.0


def main() -> int:
    """List or rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", dest="task", help="the task, in a few words")
    parser.add_argument("--root", type=Path, default=ROOT, help="where skills are")
    parser.add_argument("--limit", type=int, default=5, help="so many, when ranked")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args()
    if yaml is None or not options.root.is_dir():
        reason = "the package pyyaml is not installed" if yaml is None else f"there is no folder {options.root}"
        print(f"Error: {reason}", file=sys.stderr)
        return 2
    found, unreadable = read_all(options.root, words(options.task or ""))
    if options.task:
        found = sorted((s for s in found if s.score > 0), key=lambda s: (-s.score, s.name))[: options.limit]
    if options.json:
        print(json.dumps([asdict(skill) for skill in found], ensure_ascii=False, indent=2))
    for skill in [] if options.json else found:
        print(f"{skill.name} ({skill.category}): {first_sentence(skill.description)}\n  {skill.location}")
    for path in unreadable:
        print(f"{path} has no header that can be read", file=sys.stderr)
    if not found:
        print("No installed skill fits; try other words, or work without one", file=sys.stderr)
        return 1
    return 0


def read_all(root: Path, wanted: set[str]) -> tuple[list[Skill], list[str]]:
    """All skills by name, and files that cannot be read."""
    found, unreadable = [], []
    for path in sorted(root.glob("*/**/SKILL.md")):
        parts = path.relative_to(root).parts
        try:
            match = FENCE.match(path.read_text(encoding="utf-8"))
            header = yaml.safe_load(match[1]) if match else None
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            header = None
        if not isinstance(header, dict) or not header.get("name"):
            unreadable.append(str(path))
            continue
        name, described = str(header["name"]), " ".join(str(header.get("description", "")).split())
        score = sum(w * len(wanted & words(t)) for w, t in zip(WEIGHTS, (name, described, match[2]), strict=True))
        found.append(Skill(name, parts[0], str(path), described, round(score, 2)))
    return sorted(found, key=lambda skill: skill.name), unreadable


def words(text: str) -> set[str]:
    """The telling words of a text, without the plural's s; characters in pairs where words are not separated."""
    plain = {re.sub(r"(?<=\w{3})s$", "", word) for word in re.findall(r"[^\W_]+", text.casefold())}
    pairs = {text[at : at + 2] for at in range(len(text)) if re.fullmatch(r"[\u4e00-\u9fff]{2}", text[at : at + 2])}
    return {word for word in plain if not COMMON.fullmatch(word)} | pairs


def first_sentence(text: str) -> str:
    """What a description begins with."""
    return re.split(r"(?<=[.。])\s", text, maxsplit=1)[0]


if __name__ == "__main__":
    sys.exit(main())
