"""Copying the files of a thread to a new one."""

import os
from pathlib import Path

import pytest

from deerflow.domain.errors import FileProblem
from deerflow.sandbox.files.mounts import file_owner
from deerflow.sandbox.snapshots.restore import copy_tree


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for area in ("workspace", "uploads", "outputs"):
        (tmp_path / "one" / area).mkdir(parents=True)
    return tmp_path / "one"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "two"


def test_copies_everything_users_and_programs_made(source: Path, target: Path) -> None:
    script = source / "workspace/run me.sh"
    script.write_bytes(b"\x00\xff" * 5000)
    script.chmod(0o750)
    os.utime(script, ns=(1_000_000_000, 1_000_000_000))
    (source / "outputs/empty folder").mkdir()
    (source / "outputs/link").symlink_to("../workspace/run me.sh")
    closed = source / "workspace/closed"
    closed.mkdir()
    (closed / "in it").write_text("x")
    closed.chmod(0o555)
    copy_tree(source, target, file_owner())
    copied = target / "workspace/run me.sh"
    assert copied.read_bytes() == script.read_bytes() and copied.stat().st_mode == script.stat().st_mode
    assert copied.stat().st_mtime_ns == 1_000_000_000
    assert (target / "outputs/empty folder").is_dir()
    assert (target / "outputs/link").readlink() == Path("../workspace/run me.sh")
    assert (target / "workspace/closed/in it").read_text() == "x"
    assert (target / "workspace/closed").stat().st_mode & 0o777 == 0o555
    script.write_text("changed")
    assert copied.read_bytes() != b"changed"


def test_copies_large_files_with_bounded_memory(source: Path, target: Path) -> None:
    with (source / "outputs/large").open("wb") as large:
        large.truncate(300 * 1024**2)
    copy_tree(source, target, file_owner())
    assert (target / "outputs/large").stat().st_size == 300 * 1024**2
    (target / "outputs/large").unlink()  # it takes room, unlike the one it is a copy of


def test_skips_foreign_and_unfinished_files(source: Path, target: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    os.link(outside, source / "outputs/outside")
    (source / "outputs/twin").write_text("x")
    os.link(source / "outputs/twin", source / "outputs/other twin")
    os.mkfifo(source / "outputs/pipe")
    (source / "uploads/.upload-1").write_text("half")
    (source / "workspace/node_modules").mkdir()
    copy_tree(source, target, file_owner())
    found = sorted(str(each.relative_to(target)) for each in target.rglob("*") if each.parent != target)
    assert found == ["outputs/other twin", "outputs/twin"]


def test_copies_nothing_from_a_thread_without_files(tmp_path: Path, target: Path) -> None:
    copy_tree(tmp_path / "nothing", target, file_owner())
    assert sorted(each.name for each in target.iterdir()) == ["outputs", "uploads", "workspace"]


def test_reports_why_a_copy_failed(source: Path, target: Path) -> None:
    (source / "outputs/a").write_text("x")
    (target / "outputs").mkdir(parents=True)
    (target / "outputs/a").write_text("in the way")
    with pytest.raises(FileProblem, match="cannot be copied: file exists"):
        copy_tree(source, target, file_owner())
