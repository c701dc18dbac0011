"""`skills.lock`: what other hands change is told, once, when skills are next read."""

import logging
from pathlib import Path

import pytest

from deerflow.skills.index import SkillIndex
from deerflow.skills.lock import LockWatch, lock_skill, read_lock
from tests.skills.packs import write_skill
from tests.skills.workshops import OWNER, PERSON, open_workshop, skill


async def test_a_change_by_other_hands_is_logged_once_when_skills_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    index = SkillIndex(tmp_path / "shipped", tmp_path, watch=LockWatch().look)
    with caplog.at_level(logging.WARNING):
        index.current(OWNER)
        assert caplog.messages == []
        (tmp_path / "users" / OWNER / "skills" / "custom" / "sample" / "notes.md").write_text("x")
        assert list(index.current(OWNER).skills) == ["sample"]
        index.reload()
        index.current(OWNER)
    told = "the skill 'sample' is in use, but not as DeerFlow left it: added outside: notes.md"
    assert caplog.messages == [told]


def test_a_lock_that_cannot_be_read_locks_nothing_and_the_next_change_mends_it(tmp_path: Path) -> None:
    (tmp_path / "skills.lock").write_text("{broken")
    assert read_lock(tmp_path).skills == {}
    lock_skill(tmp_path, "sample", write_skill(tmp_path, "sample"))
    assert list(read_lock(tmp_path).skills["sample"]) == ["SKILL.md"]
