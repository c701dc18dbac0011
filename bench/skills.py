"""What skills cost: reading 1,000 of them, and the prompt section for 100 that are known.

The floor of the first figure reads the same files and has PyYAML's C loader parse their headers, and nothing else; that
of the second puts the same texts together without looking whether anything has changed, choosing or escaping.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import yaml
from _measure import Ratio, report
from _table import Row

from deerflow.agents.lead_agent.prompt import SECTIONS, PromptParts, skill_section
from deerflow.domain.skills import SkillMetadata
from deerflow.skills.catalog import filter_skills
from deerflow.skills.folders import find_skills
from deerflow.skills.index import SkillIndex, open_folder_watcher

MANY, USUAL = 1000, 100
LOAD_BAR_S, SECTION_BAR_MS = 1.0, 1.0
ROUNDS = 7
DESCRIPTION = "Does something useful with <files> – auch auf Deutsch. " * 4


def main() -> int:
    """Both figures."""
    with tempfile.TemporaryDirectory() as folder:
        many, usual = Path(folder, "many"), Path(folder, "usual")
        write_skills(many, MANY)
        write_skills(usual, USUAL)
        loads = [(timed(lambda: find_skills(many, "public")), timed(lambda: read_bare(many))) for _ in range(ROUNDS)]
        index = SkillIndex(usual, Path(folder), watcher=open_folder_watcher())
        index.read("somebody")
        cards = [skill.metadata for skill in index.read("somebody").enabled]
        section(index)
        bare = "\n".join(f"{card.name}{card.description}{card.location}" for card in cards)
        sections = [
            (timed(lambda: section(index)), timed(lambda: put_together(cards, len(bare)))) for _ in range(ROUNDS * 10)
        ]
        index.close()
    load_s, section_ms = median(ours for ours, _ in loads), 1000 * median(ours for ours, _ in sections)
    print(f"{MANY} skills read: {load_s:.3f} s (bar ≤ {LOAD_BAR_S:g}); section for {USUAL}: {section_ms:.3f} ms")
    missed = report(
        [
            ratio(f"{MANY} skills read", loads, 4.0, "ms"),
            ratio(f"prompt section for {USUAL} known skills", sections, 40.0, "µs"),
        ],
        [
            Row(f"{MANY} skills read, time", "figure", load_s, "s", bar=LOAD_BAR_S),
            Row(f"prompt section for {USUAL} known skills, time", "figure", section_ms, "ms", bar=SECTION_BAR_MS),
        ],
    )
    return int(missed or load_s > LOAD_BAR_S or section_ms > SECTION_BAR_MS)


def section(index: SkillIndex) -> str:
    """The section of the prompt, as a run asks for it."""
    found = index.get_cached("somebody")
    assert found is not None
    return "".join(
        skill_section(PromptParts(skills=tuple(skill.metadata for skill in filter_skills(found, None, None))))
    )


def put_together(cards: Sequence[SkillMetadata], size: int) -> str:
    """The same texts without a thought."""
    text = "\n".join([f"<skill>{card.name}{card.description}{card.location}</skill>" for card in cards])
    assert len(text) >= size
    return SECTIONS["skills"].substitute(folder="/mnt/skills", skills=text)


def read_bare(root: Path) -> int:
    """Read the files and parse their headers."""
    count = 0
    for folder in os.scandir(root):
        text = Path(folder.path, "SKILL.md").read_text()
        header = yaml.load(text.split("---\n", 2)[1], yaml.CSafeLoader)
        count += len(header["name"]) > 0
    return count


def write_skills(root: Path, count: int) -> None:
    """As many skills, each with a few files."""
    for number in range(count):
        folder = root / f"skill-{number}"
        (folder / "references").mkdir(parents=True)
        header = f"name: skill-{number}\ndescription: {DESCRIPTION}\nlicense: MIT\nmetadata:\n  version: '1.0'\n"
        (folder / "SKILL.md").write_text(
            f"---\n{header}allowed-tools: [bash, read_file]\n---\n\n# How\n" + "Words. " * 500
        )
        (folder / "references" / "more.md").write_text("More.")
        (folder / "helper.py").write_text("print()")


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time, which others on the machine do not take part in."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def ratio(name: str, pairs: list[tuple[float, float]], bar: float, unit: str) -> Ratio:
    """Both sides in milliseconds or microseconds."""
    times = 1e3 if unit == "ms" else 1e6
    return Ratio(name, [times * ours for ours, _ in pairs], [times * floor for _, floor in pairs], bar, unit)


if __name__ == "__main__":
    sys.exit(main())
