"""What sandboxes see of skills."""

import os
from pathlib import Path

import pytest

from deerflow.domain.errors import SandboxError
from deerflow.skills.index import SkillIndex
from deerflow.skills.roots import custom_root, owner_folder
from deerflow.skills.view import SkillViews, bring_up_to_date
from tests.skills.packs import write_skill


def shown(view: Path) -> dict[str, str]:
    return {str(path.relative_to(view)): path.read_text() for path in sorted(view.rglob("*")) if path.is_file()}


@pytest.fixture
def switches() -> dict[str, bool]:
    return {}


@pytest.fixture
def views(tmp_path: Path, switches: dict[str, bool]) -> SkillViews:
    return SkillViews(tmp_path, SkillIndex(tmp_path / "public", tmp_path, lambda: switches))


def test_what_is_no_file_and_what_lies_elsewhere_is_not_shown(views: SkillViews, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "public", "tidy")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    (folder / "script.sh").write_text("#!/bin/sh\n")
    (folder / "script.sh").chmod(0o700)
    view = views.folder_for("ann")
    assert shown(view).keys() == {"public/tidy/SKILL.md", "public/tidy/script.sh"}
    assert [oct((view / "public/tidy" / name).stat().st_mode)[-3:] for name in ("SKILL.md", "script.sh")] == [
        "644",
        "755",
    ]


def test_only_what_has_changed_is_exchanged_and_the_folder_itself_stays(
    views: SkillViews, switches: dict[str, bool], tmp_path: Path
) -> None:
    public, custom = tmp_path / "public", custom_root(tmp_path, "ann")
    for name in ("stays", "changes", "goes"):
        write_skill(public, name, folder=f"group/{name}")
    write_skill(custom, "own")
    view = views.folder_for("ann")
    whole, stays = view.stat().st_ino, (view / "public/group/stays").stat().st_ino
    inside = os.open(view / "public/group/changes", os.O_RDONLY)

    write_skill(public, "changes", "changed", folder="group/changes")
    switches["goes"] = False
    assert views.folder_for("ann") == view
    assert shown(view).keys() == {"custom/own/SKILL.md", "public/group/changes/SKILL.md", "public/group/stays/SKILL.md"}
    assert "description: changed" in shown(view)["public/group/changes/SKILL.md"]
    assert (view.stat().st_ino, (view / "public/group/stays").stat().st_ino) == (whole, stays)
    # Who stands in the former folder can go on reading there.
    assert [entry.name for entry in os.scandir(inside)] == ["SKILL.md"]
    os.close(inside)

    switches |= {"goes": True, "stays": False, "changes": False, "own": False}
    views.folder_for("ann")
    assert shown(view).keys() == {"public/group/goes/SKILL.md"}
    switches["goes"] = False
    views.folder_for("ann")
    assert [str(path.relative_to(view)) for path in sorted(view.rglob("*"))] == ["custom", "public"]
    assert shown(views.folder_for("bob")) == {}


def test_a_skill_can_take_the_place_of_a_group_and_the_other_way_round(views: SkillViews, tmp_path: Path) -> None:
    public = tmp_path / "public"
    write_skill(public, "inner", folder="a/inner")
    view = views.folder_for("ann")
    write_skill(public, "a")
    assert shown(views.folder_for("ann")).keys() == {"public/a/SKILL.md", "public/a/inner/SKILL.md"}
    (public / "a" / "SKILL.md").unlink()
    assert shown(views.folder_for("ann")).keys() == {"public/a/inner/SKILL.md"}
    assert views.folder_for("ann") == view


def test_what_a_crash_left_is_made_anew(views: SkillViews, tmp_path: Path) -> None:
    write_skill(tmp_path / "public", "tidy")
    index = SkillIndex(tmp_path / "public", tmp_path)
    view, base = views.folder_for("ann"), owner_folder(tmp_path, "ann")
    (base / "view.json").write_text('{"public/tidy": ""}')
    (view / "public/tidy/SKILL.md").write_text("half")
    (base / "retired" / "half").mkdir(parents=True)
    bring_up_to_date(base, view, index.current("ann"))
    assert shown(view)["public/tidy/SKILL.md"].startswith("---\nname: tidy")
    (base / "view.json").write_text("[half")
    bring_up_to_date(base, view, index.current("ann"))
    assert shown(view).keys() == {"public/tidy/SKILL.md"}


def test_what_cannot_be_written_is_told(views: SkillViews, tmp_path: Path) -> None:
    write_skill(tmp_path / "public", "tidy")
    owner_folder(tmp_path, "ann").mkdir(parents=True)
    (owner_folder(tmp_path, "ann") / "view").write_text("in the way")
    with pytest.raises(SandboxError, match="skills cannot be shown to the sandbox: file exists"):
        views.folder_for("ann")
