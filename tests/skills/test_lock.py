"""`skills.lock`: detection of external changes."""

import logging
from pathlib import Path

import pytest

from deerflow.skills.authoring.lock import LockMonitor, lock_skill, read_lock
from deerflow.skills.index import SkillIndex
from tests.skills.support import OWNER, PERSON, build_skill_md, open_service, write_skill


async def test_logs_external_changes_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    index = SkillIndex(tmp_path / "shipped", tmp_path, on_custom_read=LockMonitor().check)
    with caplog.at_level(logging.WARNING):
        index.read(OWNER)
        assert caplog.messages == []
        (tmp_path / "users" / OWNER / "skills" / "custom" / "sample" / "notes.md").write_text("x")
        assert list(index.read(OWNER).skills) == ["sample"]
        index.reload()
        index.read(OWNER)
    expected = "skill 'sample' was changed outside DeerFlow and stays in use: added outside: notes.md"
    assert caplog.messages == [expected]


def test_unreadable_lock_is_empty_and_rewritten_by_the_next_change(tmp_path: Path) -> None:
    (tmp_path / "skills.lock").write_text("{broken")
    assert read_lock(tmp_path).skills == {}
    lock_skill(tmp_path, "sample", write_skill(tmp_path, "sample"))
    assert list(read_lock(tmp_path).skills["sample"]) == ["SKILL.md"]
