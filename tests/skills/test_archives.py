"""Skills that come in archives: those that are taken, and those that leave nothing behind."""

import random
from pathlib import Path

import pytest

from deerflow.domain.errors import Conflict, SkillInvalid, SkillRefused
from deerflow.skills.review import Opinion
from deerflow.skills.workshop import Rules
from tests.skills.hostile_archives import HOSTILE, SKILL, as_archive, entry, packed
from tests.skills.packs import write_skill
from tests.skills.workshops import OWNER, PERSON, Reviews, left_on_disk, open_workshop

LARGE = b"\0" + random.Random(1).randbytes(3_000_000)


def test_there_are_enough_hostile_archives() -> None:
    assert len(HOSTILE) >= 20


@pytest.mark.parametrize("about", HOSTILE)
async def test_a_hostile_archive_is_refused_for_its_reason_and_leaves_nothing(about: str, tmp_path: Path) -> None:
    reviews, home = Reviews(), tmp_path / "above" / "home"  # a path with `../..` still ends in `tmp_path`
    home.mkdir(parents=True)
    workshop = open_workshop(home, reviews, rules=Rules)
    with pytest.raises((SkillRefused, SkillInvalid), match=HOSTILE[about].why):
        await workshop.install(OWNER, as_archive(HOSTILE[about].make()), PERSON)
    assert left_on_disk(home) == [] and reviews.asked == []
    assert escaped(tmp_path) == []


def escaped(folder: Path) -> list[str]:
    """Return the names of the files of archives that are anywhere in `folder`."""
    return [path.name for path in folder.rglob("evil*")]


@pytest.mark.parametrize("root", ["", "pack/"], ids=["flat", "in one folder"])
async def test_an_archive_becomes_a_skill(root: str, tmp_path: Path) -> None:
    files = [
        (f"{root}SKILL.md", SKILL.encode()),
        (f"{root}references/a.md", b"# A\n"),
        (entry(f"{root}scripts/run.sh", 0o100755), b"#!/bin/sh\necho hi\n"),
        (f"{root}assets/large.bin", LARGE),
        ("__MACOSX/._SKILL.md", b"junk"),
        (f"{root}.DS_Store", b"junk"),
    ]
    workshop = open_workshop(tmp_path, rules=Rules)
    stored, verdict = await workshop.install(OWNER, as_archive(packed(*files, skill=None)), PERSON)
    assert [file.path for file in stored.files] == [
        "SKILL.md",
        "assets/large.bin",
        "references/a.md",
        "scripts/run.sh",
    ]
    assert verdict.decision == "allow" and stored.changed_outside == ()
    folder = tmp_path / "users" / OWNER / "skills" / "custom" / "sample"
    assert (folder / "scripts" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (folder / "SKILL.md").read_text() == SKILL and (folder / "assets" / "large.bin").read_bytes() == LARGE
    [noted] = await workshop.history(OWNER, "sample")
    assert (noted.action, noted.author, noted.after) == ("install", "person", SKILL)


async def test_a_name_that_is_taken_is_a_conflict_also_by_a_built_in_skill(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path, rules=Rules)
    await workshop.install(OWNER, as_archive(packed()), PERSON)
    before = left_on_disk(tmp_path)
    with pytest.raises(Conflict, match="already a skill 'sample'"):
        await workshop.install(OWNER, as_archive(packed()), PERSON)
    write_skill(tmp_path / "shipped", "famous")
    with pytest.raises(Conflict, match="already a skill 'famous'"):
        await workshop.install(OWNER, as_archive(packed(skill=SKILL.replace("sample", "famous"))), PERSON)
    assert left_on_disk(tmp_path) == before


async def test_a_model_reads_what_is_installed_and_may_refuse_it(tmp_path: Path) -> None:
    reviews = Reviews([Opinion('{"decision": "block", "reason": "It hides something."}')])
    workshop = open_workshop(tmp_path, reviews, rules=Rules)
    script = ("scripts/run.py", b"print('a script')\n")
    with pytest.raises(SkillRefused, match="refused by the review: It hides something."):
        await workshop.install(OWNER, as_archive(packed(script)), PERSON)
    assert "a script" in reviews.asked[0].skill and "Does one thing." in reviews.asked[0].skill
    assert left_on_disk(tmp_path) == []
