"""Skill views for sandboxes."""

import os
from pathlib import Path

import pytest

from deerflow.config.sections.base import Settings
from deerflow.domain.errors import SandboxError
from deerflow.skills.catalog import SkillViews, update_view
from deerflow.skills.folders import custom_root, owner_folder
from deerflow.skills.index import SkillIndex
from tests.skills.support import write_skill


def read_view(view: Path) -> dict[str, str]:
    return {str(path.relative_to(view)): path.read_text() for path in sorted(view.rglob("*")) if path.is_file()}


@pytest.fixture
def switches() -> dict[str, bool]:
    return {}


@pytest.fixture
def views(tmp_path: Path, switches: dict[str, bool]) -> SkillViews:
    return SkillViews(tmp_path, SkillIndex(tmp_path / "public", tmp_path, Settings(lambda: switches)))


def test_copies_only_regular_files(views: SkillViews, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "public", "tidy")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    (folder / "script.sh").write_text("#!/bin/sh\n")
    (folder / "script.sh").chmod(0o700)
    view = views.prepare("ann")
    assert read_view(view).keys() == {"public/tidy/SKILL.md", "public/tidy/script.sh"}
    assert [oct((view / "public/tidy" / name).stat().st_mode)[-3:] for name in ("SKILL.md", "script.sh")] == [
        "644",
        "755",
    ]


def test_replaces_only_changed_skills_and_keeps_the_view_folder(
    views: SkillViews, switches: dict[str, bool], tmp_path: Path
) -> None:
    public, custom = tmp_path / "public", custom_root(tmp_path, "ann")
    for name in ("stays", "changes", "goes"):
        write_skill(public, name, folder=f"group/{name}")
    write_skill(custom, "own")
    view = views.prepare("ann")
    whole, stays = view.stat().st_ino, (view / "public/group/stays").stat().st_ino
    inside = os.open(view / "public/group/changes", os.O_RDONLY)

    write_skill(public, "changes", "changed", folder="group/changes")
    switches["goes"] = False
    assert views.prepare("ann") == view
    assert read_view(view).keys() == {
        "custom/own/SKILL.md",
        "public/group/changes/SKILL.md",
        "public/group/stays/SKILL.md",
    }
    assert "description: changed" in read_view(view)["public/group/changes/SKILL.md"]
    assert (view.stat().st_ino, (view / "public/group/stays").stat().st_ino) == (whole, stays)
    # A process that has the old folder open can still read it.
    assert [entry.name for entry in os.scandir(inside)] == ["SKILL.md"]
    os.close(inside)

    switches |= {"goes": True, "stays": False, "changes": False, "own": False}
    views.prepare("ann")
    assert read_view(view).keys() == {"public/group/goes/SKILL.md"}
    switches["goes"] = False
    views.prepare("ann")
    assert [str(path.relative_to(view)) for path in sorted(view.rglob("*"))] == ["custom", "public"]
    assert read_view(views.prepare("bob")) == {}


def test_skill_and_group_folder_can_replace_each_other(views: SkillViews, tmp_path: Path) -> None:
    public = tmp_path / "public"
    write_skill(public, "inner", folder="a/inner")
    view = views.prepare("ann")
    write_skill(public, "a")
    assert read_view(views.prepare("ann")).keys() == {"public/a/SKILL.md", "public/a/inner/SKILL.md"}
    (public / "a" / "SKILL.md").unlink()
    assert read_view(views.prepare("ann")).keys() == {"public/a/inner/SKILL.md"}
    assert views.prepare("ann") == view


def test_repairs_the_view_after_a_crash(views: SkillViews, tmp_path: Path) -> None:
    write_skill(tmp_path / "public", "tidy")
    index = SkillIndex(tmp_path / "public", tmp_path)
    view, base = views.prepare("ann"), owner_folder(tmp_path, "ann")
    (base / "view.json").write_text('{"public/tidy": ""}')
    (view / "public/tidy/SKILL.md").write_text("half")
    (base / "retired" / "half").mkdir(parents=True)
    update_view(base, view, index.read("ann"))
    assert read_view(view)["public/tidy/SKILL.md"].startswith("---\nname: tidy")
    (base / "view.json").write_text("[half")
    update_view(base, view, index.read("ann"))
    assert read_view(view).keys() == {"public/tidy/SKILL.md"}


def test_reports_write_errors(views: SkillViews, tmp_path: Path) -> None:
    write_skill(tmp_path / "public", "tidy")
    owner_folder(tmp_path, "ann").mkdir(parents=True)
    (owner_folder(tmp_path, "ann") / "view").write_text("in the way")
    with pytest.raises(SandboxError, match="cannot copy skills for the sandbox: file exists"):
        views.prepare("ann")
