"""Installation of skills from archives."""

import random
from pathlib import Path

import pytest

from deerflow.domain.errors import Conflict, SkillInvalid, SkillRefused
from deerflow.skills.authoring.custom_skills import ReviewPolicy
from deerflow.skills.authoring.review import ReviewReply
from tests.skills.hostile_archives import HOSTILE, SKILL, build_archive, build_entry, open_archive
from tests.skills.support import OWNER, PERSON, ScriptedReviews, list_stored_files, open_service, write_skill

LARGE = b"\0" + random.Random(1).randbytes(3_000_000)


def test_there_are_at_least_twenty_hostile_archives() -> None:
    assert len(HOSTILE) >= 20


@pytest.mark.parametrize("about", HOSTILE)
async def test_refuses_hostile_archive_and_leaves_no_files(about: str, tmp_path: Path) -> None:
    reviews, home = ScriptedReviews(), tmp_path / "above" / "home"  # a path with `../..` still ends in `tmp_path`
    home.mkdir(parents=True)
    service = open_service(home, reviews, policy=ReviewPolicy)
    with pytest.raises((SkillRefused, SkillInvalid), match=HOSTILE[about].reason):
        await service.install(OWNER, open_archive(HOSTILE[about].make()), PERSON)
    assert list_stored_files(home) == [] and reviews.requests == []
    assert find_escaped(tmp_path) == []


def find_escaped(folder: Path) -> list[str]:
    """Return the names of the files of archives that are anywhere in `folder`."""
    return [path.name for path in folder.rglob("evil*")]


@pytest.mark.parametrize("root", ["", "pack/"], ids=["flat", "in one folder"])
async def test_installs_an_archive(root: str, tmp_path: Path) -> None:
    files = [
        (f"{root}SKILL.md", SKILL.encode()),
        (f"{root}references/a.md", b"# A\n"),
        (build_entry(f"{root}scripts/run.sh", 0o100755), b"#!/bin/sh\necho hi\n"),
        (f"{root}assets/large.bin", LARGE),
        ("__MACOSX/._SKILL.md", b"junk"),
        (f"{root}.DS_Store", b"junk"),
    ]
    service = open_service(tmp_path, policy=ReviewPolicy)
    stored, result = await service.install(OWNER, open_archive(build_archive(*files, skill=None)), PERSON)
    assert [file.path for file in stored.files] == [
        "SKILL.md",
        "assets/large.bin",
        "references/a.md",
        "scripts/run.sh",
    ]
    assert result.decision == "allow" and stored.changed_outside == ()
    folder = tmp_path / "users" / OWNER / "skills" / "custom" / "sample"
    assert (folder / "scripts" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (folder / "SKILL.md").read_text() == SKILL and (folder / "assets" / "large.bin").read_bytes() == LARGE
    [recorded] = await service.history(OWNER, "sample")
    assert (recorded.action, recorded.author, recorded.after) == ("install", "person", SKILL)


async def test_install_conflicts_with_an_existing_name(tmp_path: Path) -> None:
    service = open_service(tmp_path, policy=ReviewPolicy)
    await service.install(OWNER, open_archive(build_archive()), PERSON)
    before = list_stored_files(tmp_path)
    with pytest.raises(Conflict, match="skill 'sample' already exists"):
        await service.install(OWNER, open_archive(build_archive()), PERSON)
    write_skill(tmp_path / "shipped", "famous")
    with pytest.raises(Conflict, match="skill 'famous' already exists"):
        await service.install(OWNER, open_archive(build_archive(skill=SKILL.replace("sample", "famous"))), PERSON)
    assert list_stored_files(tmp_path) == before


async def test_install_can_be_refused_by_the_review(tmp_path: Path) -> None:
    reviews = ScriptedReviews([ReviewReply('{"decision": "block", "reason": "It hides something."}')])
    service = open_service(tmp_path, reviews, policy=ReviewPolicy)
    script = ("scripts/run.py", b"print('a script')\n")
    with pytest.raises(SkillRefused, match="refused by the review: It hides something."):
        await service.install(OWNER, open_archive(build_archive(script)), PERSON)
    assert "a script" in reviews.requests[0].skill and "Does one thing." in reviews.requests[0].skill
    assert list_stored_files(tmp_path) == []
