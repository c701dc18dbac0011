"""Removal of folders that agents made hard to remove."""

import os
from pathlib import Path

import pytest

from deerflow.sandbox.local import usage
from deerflow.sandbox.local.usage import remove_folder


def test_deletes_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "thread"
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("one", "a/two\nlines", "a/b/.three"):
        (folder / name).write_text(name)
    (folder / "locked").mkdir()
    (folder / "locked" / "inner").mkdir()
    (folder / "locked" / "inner").chmod(0)
    (folder / "locked").chmod(0)
    os.mkfifo(folder / "pipe")
    remove_folder(folder)
    assert list(tmp_path.iterdir()) == []


def test_keeps_link_targets(tmp_path: Path) -> None:
    folder, outside = tmp_path / "thread", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    folder.mkdir()
    (folder / "folder").symlink_to(outside)
    (folder / "file").symlink_to(outside / "file")
    (folder / "hard").hardlink_to(outside / "file")
    remove_folder(folder)
    assert not folder.exists()
    assert (outside / "file").read_text() == "kept"


def test_ignores_a_missing_folder(tmp_path: Path) -> None:
    remove_folder(tmp_path / "none")
    remove_folder(tmp_path / "none" / "below")


def test_deletes_the_rest_when_others_delete_parts_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion of a person and those of their threads and projects meet after a restart."""
    folder = tmp_path / "person"
    for name in ("skills/one", "threads/t", "threads/u", "projects/p"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text(name)
    unlink, flatten = os.unlink, usage.flatten_folder
    vanished = iter([folder / "threads" / "t", folder / "projects" / "p"])

    def flatten_late(opened: usage.OpenFolder, root: usage.OpenFolder) -> list[str]:
        names = flatten(opened, root)
        if opened is root and (part := next(vanished, None)) is not None and part.exists():
            remove_folder(part.parent)
        return names

    def unlink_late(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(usage, "flatten_folder", flatten_late)
    monkeypatch.setattr(os, "unlink", unlink_late)
    remove_folder(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_deletes_deeply_nested_folders(tmp_path: Path) -> None:
    (tmp_path / "thread").mkdir()
    folder = os.open(tmp_path / "thread", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        os.close(os.open("file", os.O_CREAT, dir_fd=folder))
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    remove_folder(tmp_path / "thread")
    assert list(tmp_path.iterdir()) == []
