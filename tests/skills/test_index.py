"""The skills of somebody, as their folders are now."""

import ctypes
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from deerflow.domain.errors import InvalidRequest
from deerflow.skills.index import SkillIndex
from deerflow.skills.notices import Notices, open_notices
from deerflow.skills.roots import custom_root
from tests.skills.packs import write_skill


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return tmp_path / "public"


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    return custom_root(tmp_path, "ann")


@pytest.fixture
def index(tmp_path: Path, public: Path) -> Iterator[SkillIndex]:
    index = SkillIndex(public, tmp_path, lambda: {"off": False}, open_notices())
    yield index
    index.close()


def test_what_cannot_be_a_skill_is_kept_with_its_reason(index: SkillIndex, public: Path, tmp_path: Path) -> None:
    (write_skill(public, "broken") / "SKILL.md").write_text("no header")
    (write_skill(public, "latin") / "SKILL.md").write_bytes("---\nname: ä".encode("latin-1"))
    (write_skill(public, "huge") / "SKILL.md").write_text("x" * 600_000)
    secret = write_skill(tmp_path / "elsewhere", "secret")
    (public / "linked").symlink_to(secret)
    (public / "half").mkdir()
    (public / "half" / "SKILL.md").symlink_to(secret / "SKILL.md")
    (public / "piped").mkdir()
    os.mkfifo(public / "piped" / "SKILL.md")
    write_skill(public, "twin", folder="a/twin")
    write_skill(public, "twin", folder="b/twin")

    found = index.current("ann")

    assert list(found.skills) == ["twin"]
    assert {each.path: each.reason.split(";")[0] for each in found.refused} == {
        "broken": "SKILL.md: the header is missing or not closed",
        "latin": "SKILL.md: is not UTF-8 text",
        "huge": "SKILL.md: is larger than 512 KB",
        "linked": "is a link, and links are not followed",
        "half": "SKILL.md: is a link, and links are not followed",
        "piped": "SKILL.md: is not a file",
        "b/twin": "there is already a skill 'twin' in 'a/twin'",
    }


def test_nobody_can_be_called_by_a_path(index: SkillIndex) -> None:
    with pytest.raises(InvalidRequest, match="user id"):
        index.current("../bob")


def test_skills_are_found_at_any_depth_and_what_is_in_one_belongs_to_it(
    index: SkillIndex, public: Path, custom: Path
) -> None:
    write_skill(public, "off")
    outer = write_skill(public, "outer", folder="writing/long/outer")
    write_skill(outer, "inner", folder="references/inner")
    write_skill(public, "hidden", folder=".git/hidden")
    write_skill(custom, "own")

    found = index.current("ann")

    assert {name: skill.location for name, skill in found.skills.items()} == {
        "off": "/mnt/skills/public/off/SKILL.md",
        "outer": "/mnt/skills/public/writing/long/outer/SKILL.md",
        "own": "/mnt/skills/custom/own/SKILL.md",
    }
    assert [skill.name for skill in found.enabled] == ["outer", "own"]
    assert [skill.name for skill in found.skills.values() if skill.editable] == ["own"]
    assert list(index.current("bob").skills) == ["off", "outer"]


def test_a_persons_skill_takes_the_place_of_a_shipped_one(index: SkillIndex, public: Path, custom: Path) -> None:
    write_skill(public, "tidy", "shipped")
    write_skill(custom, "tidy", "own")
    assert index.current("ann").skills["tidy"].description == "own"
    assert index.current("bob").skills["tidy"].description == "shipped"


def test_nothing_is_read_again_until_something_changes(index: SkillIndex, public: Path, custom: Path) -> None:
    assert index.ready("ann") is None
    tidy = write_skill(public, "tidy", folder="deep/tidy")
    before = index.current("ann")
    assert index.ready("ann") is before and index.current("ann") is before

    seen = [before.version]

    def after_a_change() -> str:
        assert index.ready("ann") is None
        now = index.current("ann")
        assert index.ready("ann") is now
        seen.append(now.version)
        return seen[-1]

    write_skill(public, "tidy", "changed", folder="deep/tidy")
    after_a_change()
    (tidy / "references").mkdir()
    index.current("ann")
    (tidy / "references" / "more.md").write_text("more")
    after_a_change()
    own = write_skill(custom, "own", folder="a/b/own")
    after_a_change()
    (own / "SKILL.md").unlink()
    after_a_change()
    tidy.rename(public / "moved")
    after_a_change()
    assert all(former != later for former, later in pairwise(seen))
    assert index.current("ann").skills["tidy"].location == "/mnt/skills/public/moved/SKILL.md"

    index.reload()
    assert index.ready("ann") is None and index.current("ann").version == seen[-1]


def test_where_the_kernel_tells_nothing_the_folders_are_looked_at_each_time(public: Path, tmp_path: Path) -> None:
    index = SkillIndex(public, tmp_path)
    write_skill(public, "tidy")
    before = index.current("ann")
    assert index.ready("ann") is None and index.current("ann") is before
    write_skill(public, "tidy", "changed by somebody")
    assert index.current("ann").skills["tidy"].description == "changed by somebody"


async def test_folders_are_read_in_a_thread(index: SkillIndex, public: Path) -> None:
    write_skill(public, "tidy")
    assert list((await index.load("ann")).skills) == ["tidy"]
    assert index.ready("ann") is await index.load("ann")


def test_what_changes_while_it_is_being_read_is_read_again(tmp_path: Path, public: Path) -> None:
    meanwhile = ["changed meanwhile"]

    def switches() -> dict[str, bool]:
        if meanwhile:
            write_skill(public, "tidy", meanwhile.pop())
        return {}

    write_skill(public, "tidy", "before")
    index = SkillIndex(public, tmp_path, switches, open_notices())
    assert index.current("ann").skills["tidy"].description == "before"
    assert index.ready("ann") is None
    assert index.current("ann").skills["tidy"].description == "changed meanwhile"
    index.close()
    assert index.ready("ann") is not None  # whoever still asks while everything closes


class NoWatchLeft(Notices):
    """The kernel of a machine whose users watch too much."""

    def __init__(self) -> None:
        super().__init__(-1, ctypes.CDLL(None))

    def look_after(self, folder: Path, root: Path) -> bool:
        return False


def test_where_no_watch_is_left_the_folders_are_looked_at_each_time(tmp_path: Path, public: Path) -> None:
    index = SkillIndex(public, tmp_path, notices=NoWatchLeft())
    write_skill(public, "tidy")
    before = index.current("ann")
    assert index.ready("ann") is None and index.current("ann") is before
    write_skill(public, "tidy", "changed by somebody")
    assert index.current("ann").skills["tidy"].description == "changed by somebody"
