"""Snapshots of a thread's files: take, compare, restore."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from deerflow.domain.files import WorkspaceChanges
from deerflow.sandbox.files.traversal import MAX_DEPTH
from deerflow.sandbox.snapshots.copies import SnapshotLimits
from deerflow.sandbox.snapshots.snapshots import Snapshots
from tests.sandbox.snapshot_files import EDITS, TreeState, apply_edit, create_thread_files, files, read_tree, snapshots

__all__ = ["files", "snapshots"]  # fixtures


@given(before=some.lists(EDITS, max_size=12), during=some.lists(EDITS, max_size=12))
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_restores_any_changes_of_a_run_exactly(
    before: list[tuple[str, str, bytes]], during: list[tuple[str, str, bytes]]
) -> None:
    before = [step for step in before if step[0] != "pipe"]  # what a pipe was for nobody can bring back
    with create_thread_files() as (files, snapshots):
        for step in before:
            apply_edit(files, *step)
        seen = read_tree(files)
        snapshots.take("r1")
        assert snapshots.changes("r1") == WorkspaceChanges()
        for step in during:
            apply_edit(files, *step)
        assert snapshots.restore("r1") == ()
        assert read_tree(files) == seen
        assert snapshots.changes("r1") == WorkspaceChanges()


@given(steps=some.lists(some.lists(EDITS, max_size=8), min_size=2, max_size=4))
@settings(max_examples=50, deadline=None)
@pytest.mark.slow
def test_restores_only_the_latest_run_and_drops_older_copies(
    steps: list[list[tuple[str, str, bytes]]],
) -> None:
    with create_thread_files() as (files, snapshots):
        seen: TreeState = {}
        for number, edits in enumerate(steps):
            seen = read_tree(files)
            snapshots.take(f"r{number}")
            for step in edits:
                if step[0] != "pipe":
                    apply_edit(files, *step)
        assert snapshots.restore("r0") == ()
        assert snapshots.restore(f"r{len(steps) - 1}") == ()
        assert read_tree(files) == seen
        copies = list((snapshots.folder / "contents").iterdir())
        contents = {content for _, _, _, content in seen.values() if content}
        assert len(copies) <= len(seen) and {copy.read_bytes() for copy in copies} <= contents


def test_restores_a_second_attempt_to_before_the_first(files: Path, snapshots: Snapshots) -> None:
    (files / "workspace/a").write_text("before")
    snapshots.take("r1")
    (files / "workspace/a").write_text("first")
    snapshots.take("r1")
    (files / "workspace/a").write_text("second")
    assert snapshots.restore("r1") == ()
    assert (files / "workspace/a").read_text() == "before"


def test_lists_changes(files: Path, snapshots: Snapshots) -> None:
    for name in ("same", "touched", "changed", "removed", "twisted"):
        (files / "workspace" / name).write_text("12345")
    snapshots.take("r1")
    (files / "workspace/touched").write_text("12345")
    (files / "workspace/changed").write_text("54321")
    os.utime(files / "workspace/changed", (1, 1))
    (files / "workspace/removed").unlink()
    (files / "workspace/twisted").unlink()
    (files / "workspace/twisted").symlink_to("same")
    (files / "outputs/deep/er").mkdir(parents=True)
    (files / "outputs/deep/er/new").touch()
    changes = snapshots.changes("r1")
    assert changes is not None and [(each.status, each.path) for each in changes.files] == [
        ("added", "/mnt/user-data/outputs/deep/er/new"),
        ("changed", "/mnt/user-data/workspace/changed"),
        ("removed", "/mnt/user-data/workspace/removed"),
        ("changed", "/mnt/user-data/workspace/twisted"),
    ]
    assert snapshots.changes("r2") is None


def test_restoring_a_run_without_files_does_nothing(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "t" / "snapshots", tmp_path / "t" / "user-data")
    assert snapshots.restore("r1") == ()
    assert snapshots.changes("r1") is None
    assert list(tmp_path.iterdir()) == []


def test_names_files_too_large_to_restore(tmp_path: Path, files: Path) -> None:
    snapshots = Snapshots(tmp_path / "snapshots", files, SnapshotLimits(file_bytes=10, bytes=15))
    (files / "workspace/large").write_bytes(b"x" * 11)
    (files / "workspace/other").write_bytes(b"y" * 10)
    (files / "workspace/still").write_bytes(b"z" * 11)
    snapshots.take("r1")
    (files / "workspace/large").unlink()
    (files / "workspace/other").unlink()
    assert snapshots.restore("r1") == ("/mnt/user-data/workspace/large",)
    assert (files / "workspace/other").read_bytes() == b"y" * 10
    assert (files / "workspace/still").read_bytes() == b"z" * 11


def test_does_not_copy_files_with_links_elsewhere(tmp_path: Path, files: Path, snapshots: Snapshots) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    os.link(secret, files / "workspace/mine")
    snapshots.take("r1")
    (files / "workspace/mine").unlink()
    assert snapshots.restore("r1") == ("/mnt/user-data/workspace/mine",)
    assert not (files / "workspace/mine").exists()


def test_does_not_follow_a_folder_swapped_for_a_link(tmp_path: Path, files: Path, snapshots: Snapshots) -> None:
    outside = tmp_path / "outside"
    (files / "workspace/folder").mkdir()
    (files / "workspace/folder/file").write_text("inside")
    outside.mkdir()
    (outside / "file").write_text("outside")
    snapshots.take("r1")
    shutil.rmtree(files / "workspace/folder")
    (files / "workspace/folder").symlink_to(outside)
    assert snapshots.restore("r1") == ()
    assert (files / "workspace/folder/file").read_text() == "inside"
    assert (outside / "file").read_text() == "outside" and not (files / "workspace/folder").is_symlink()


def test_ignores_caches_of_programs(files: Path, snapshots: Snapshots) -> None:
    for folder in ("workspace/.home", "workspace/app/node_modules", "workspace/app/.venv"):
        (files / folder).mkdir(parents=True)
    snapshots.take("r1")
    (files / "workspace/.home/cache").write_text("kept")
    (files / "workspace/new/__pycache__").mkdir(parents=True)
    (files / "workspace/new/__pycache__/x").touch()
    assert snapshots.changes("r1") == WorkspaceChanges()
    assert snapshots.restore("r1") == ()
    assert (files / "workspace/.home/cache").exists() and not (files / "workspace/new").exists()


def test_ignores_folders_beyond_the_maximum_depth(files: Path, snapshots: Snapshots) -> None:
    deep = files / "workspace" / "/".join("d" * (MAX_DEPTH + 20))
    deep.mkdir(parents=True)
    (deep / "file").write_text("deep")
    snapshots.take("r1")
    (files / "workspace/new").write_text("new")
    assert snapshots.restore("r1") == ()
    assert (deep / "file").read_text() == "deep" and not (files / "workspace/new").exists()


def test_ignores_a_broken_manifest(files: Path, snapshots: Snapshots) -> None:
    snapshots.take("r1")
    (snapshots.folder / "list.json").write_text('{"version": 1, "run')
    (files / "workspace/kept").touch()
    assert snapshots.restore("r1") == ()
    assert (files / "workspace/kept").exists()
    snapshots.take("r2")
    assert snapshots.changes("r2") == WorkspaceChanges()


def test_copies_unchanged_files_once(files: Path, snapshots: Snapshots) -> None:
    (files / "workspace/a").write_text("a")
    old = (files / "workspace/a").stat().st_ctime_ns
    while (files / "workspace/clock").write_text("") is not None:  # until the clock of the file system has moved on
        if (files / "workspace/clock").stat().st_mtime_ns > old + 200_000_000:
            break
    snapshots.take("r1")
    (copy,) = (each for each in (snapshots.folder / "contents").iterdir() if each.read_text() == "a")
    first = copy.stat().st_ino
    snapshots.take("r2")
    assert copy.stat().st_ino == first
