"""Index of skill folders."""

import ctypes
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from deerflow.config.sections.base import Settings
from deerflow.domain.errors import InvalidRequest
from deerflow.skills.folders import custom_root
from deerflow.skills.index import FolderWatcher, SkillIndex, open_folder_watcher
from tests.skills.support import write_skill


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return tmp_path / "public"


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    return custom_root(tmp_path, "ann")


@pytest.fixture
def index(tmp_path: Path, public: Path) -> Iterator[SkillIndex]:
    index = SkillIndex(public, tmp_path, Settings(lambda: {"off": False}), open_folder_watcher())
    yield index
    index.close()


def test_rejects_invalid_skills_with_a_reason(index: SkillIndex, public: Path, tmp_path: Path) -> None:
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

    found = index.read("ann")

    assert list(found.skills) == ["twin"]
    assert {each.path: each.reason.split(";")[0] for each in found.rejected} == {
        "broken": "SKILL.md: the header is missing or not closed",
        "latin": "SKILL.md: is not UTF-8 text",
        "huge": "SKILL.md: is larger than 512 KB",
        "linked": "symbolic links are not followed",
        "half": "SKILL.md: symbolic links are not followed",
        "piped": "SKILL.md: is not a file",
        "b/twin": "duplicate skill 'twin', also in 'a/twin'",
    }


def test_refuses_a_path_as_user_id(index: SkillIndex) -> None:
    with pytest.raises(InvalidRequest, match="user id"):
        index.read("../bob")


def test_finds_nested_skills_but_none_inside_a_skill(index: SkillIndex, public: Path, custom: Path) -> None:
    write_skill(public, "off")
    outer = write_skill(public, "outer", folder="writing/long/outer")
    write_skill(outer, "inner", folder="references/inner")
    write_skill(public, "hidden", folder=".git/hidden")
    write_skill(custom, "own")

    found = index.read("ann")

    assert {name: skill.location for name, skill in found.skills.items()} == {
        "off": "/mnt/skills/public/off/SKILL.md",
        "outer": "/mnt/skills/public/writing/long/outer/SKILL.md",
        "own": "/mnt/skills/custom/own/SKILL.md",
    }
    assert [skill.name for skill in found.enabled] == ["outer", "own"]
    assert [skill.name for skill in found.skills.values() if skill.editable] == ["own"]
    assert list(index.read("bob").skills) == ["off", "outer"]


def test_custom_skill_overrides_builtin_skill(index: SkillIndex, public: Path, custom: Path) -> None:
    write_skill(public, "tidy", "shipped")
    write_skill(custom, "tidy", "own")
    assert index.read("ann").skills["tidy"].description == "own"
    assert index.read("bob").skills["tidy"].description == "shipped"


def test_caches_skills_until_a_change(index: SkillIndex, public: Path, custom: Path) -> None:
    assert index.get_cached("ann") is None
    tidy = write_skill(public, "tidy", folder="deep/tidy")
    before = index.read("ann")
    assert index.get_cached("ann") is before and index.read("ann") is before

    seen = [before.version]

    def after_a_change() -> str:
        assert index.get_cached("ann") is None
        now = index.read("ann")
        assert index.get_cached("ann") is now
        seen.append(now.version)
        return seen[-1]

    write_skill(public, "tidy", "changed", folder="deep/tidy")
    after_a_change()
    (tidy / "references").mkdir()
    index.read("ann")
    (tidy / "references" / "more.md").write_text("more")
    after_a_change()
    own = write_skill(custom, "own", folder="a/b/own")
    after_a_change()
    (own / "SKILL.md").unlink()
    after_a_change()
    tidy.rename(public / "moved")
    after_a_change()
    assert all(former != later for former, later in pairwise(seen))
    assert index.read("ann").skills["tidy"].location == "/mnt/skills/public/moved/SKILL.md"

    index.reload()
    assert index.get_cached("ann") is None and index.read("ann").version == seen[-1]


def test_compares_folders_on_each_read_without_a_watcher(public: Path, tmp_path: Path) -> None:
    index = SkillIndex(public, tmp_path)
    write_skill(public, "tidy")
    before = index.read("ann")
    assert index.get_cached("ann") is None and index.read("ann") is before
    write_skill(public, "tidy", "changed by somebody")
    assert index.read("ann").skills["tidy"].description == "changed by somebody"


async def test_load_reads_folders_in_a_thread(index: SkillIndex, public: Path) -> None:
    write_skill(public, "tidy")
    assert list((await index.load("ann")).skills) == ["tidy"]
    assert index.get_cached("ann") is await index.load("ann")


def test_rescans_after_a_change_during_the_scan(tmp_path: Path, public: Path) -> None:
    meanwhile = ["changed meanwhile"]

    def switches() -> dict[str, bool]:
        if meanwhile:
            write_skill(public, "tidy", meanwhile.pop())
        return {}

    write_skill(public, "tidy", "before")
    index = SkillIndex(public, tmp_path, Settings(switches), open_folder_watcher())
    assert index.read("ann").skills["tidy"].description == "before"
    assert index.get_cached("ann") is None
    assert index.read("ann").skills["tidy"].description == "changed meanwhile"
    index.close()
    assert index.get_cached("ann") is not None  # reads during shutdown still work


class NoWatchLeft(FolderWatcher):
    """Watcher on a machine without free inotify watches."""

    def __init__(self) -> None:
        super().__init__(-1, ctypes.CDLL(None))

    def watch(self, folder: Path, root: Path) -> bool:
        return False


def test_compares_folders_on_each_read_if_the_watcher_is_exhausted(tmp_path: Path, public: Path) -> None:
    index = SkillIndex(public, tmp_path, watcher=NoWatchLeft())
    write_skill(public, "tidy")
    before = index.read("ann")
    assert index.get_cached("ann") is None and index.read("ann") is before
    write_skill(public, "tidy", "changed by somebody")
    assert index.read("ann").skills["tidy"].description == "changed by somebody"
