"""Streaming several files as one zip file."""

import io
import os
import zipfile
from pathlib import Path

import pytest

from deerflow.domain.errors import FileProblem
from deerflow.sandbox.archives import ZipBundle, collect_bundle, make_unique, make_zip_name
from deerflow.sandbox.files.mounts import resolve_path, user_data_mounts

OUTPUTS, WORK = "/mnt/user-data/outputs", "/mnt/user-data/workspace"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for area in ("workspace", "uploads", "outputs"):
        (tmp_path / area).mkdir()
    return tmp_path


def create_bundle(files: Path, *paths: str) -> ZipBundle:
    return collect_bundle([resolve_path(user_data_mounts(files), path) for path in paths])


def read_bundle(made: ZipBundle) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(b"".join(made.chunks()))) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_keeps_names_and_bytes_and_adds_each_file_once(files: Path) -> None:
    (files / "outputs/deep/er").mkdir(parents=True)
    (files / "outputs/deep/er/größe — 数.txt").write_bytes(b"\r\n\0")
    (files / "outputs/empty").touch()
    (files / "workspace/empty").write_bytes(bytes(range(256)) * 5000)
    (files / "workspace/other").touch()
    paths = (OUTPUTS, f"{OUTPUTS}/empty", f"{OUTPUTS}/deep", f"{WORK}/empty", f"{WORK}/empty")
    assert read_bundle(create_bundle(files, *paths)) == {
        "outputs/deep/er/größe — 数.txt": b"\r\n\0",
        "outputs/empty": b"",
        "workspace/empty": bytes(range(256)) * 5000,
    }


def test_names_all_missing_paths_before_streaming(files: Path) -> None:
    (files / "outputs/there").touch()
    os.mkfifo(files / "outputs/pipe")
    (files / "outputs/link").symlink_to("/etc/passwd")
    paths = (f"{OUTPUTS}/there", f"{OUTPUTS}/none", f"{WORK}/folder/none", f"{OUTPUTS}/pipe", f"{OUTPUTS}/link")
    with pytest.raises(FileProblem) as refused:
        create_bundle(files, *paths)
    assert all(repr(path) in str(refused.value) for path in paths[1:]) and "there'" not in str(refused.value)
    with pytest.raises(FileProblem, match="no files"):
        create_bundle(files, WORK)


def test_skips_links_and_special_files_in_folders(files: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (files / "outputs/mine").write_text("mine")
    (files / "outputs/link").symlink_to(tmp_path / "secret")
    os.link(tmp_path / "secret", files / "outputs/hard")
    os.mkfifo(files / "outputs/pipe")
    assert read_bundle(create_bundle(files, OUTPUTS)) == {"outputs/mine": b"mine"}


def test_fails_if_a_file_is_removed_while_streaming(files: Path) -> None:
    (files / "outputs/a").write_text("a")
    (files / "outputs/b").write_text("b")
    made = create_bundle(files, OUTPUTS)
    (files / "outputs/b").unlink()
    with pytest.raises(FileProblem):
        read_bundle(made)


def test_clamps_times_to_the_range_of_the_zip_format(files: Path) -> None:
    for name, moment in (("old", 0), ("new", 5_000_000_000), ("never", 2**40)):
        (files / "outputs" / name).touch()
        os.utime(files / "outputs" / name, (moment, moment))
    with zipfile.ZipFile(io.BytesIO(b"".join(create_bundle(files, OUTPUTS).chunks()))) as archive:
        years = {info.filename: info.date_time[0] for info in archive.infolist()}
    assert years["outputs/old"] == 1980 and years["outputs/new"] in (2107, 2128)


def test_makes_names_safe_on_any_operating_system() -> None:
    assert make_zip_name(r"/mnt/user-data/outputs/..\..\evil.exe") == "outputs/.._.._evil.exe"
    assert make_zip_name("/mnt/user-data/outputs/a\nb:c\u202e.txt") == "outputs/a_b_c_.txt"
    assert make_unique(["a.txt", "A.txt", "a.txt", "b", "B", "x/.c", "x/.C"]) == [
        "a.txt",
        "A (2).txt",
        "a (3).txt",
        "b",
        "B (2)",
        "x/.c",
        "x/.C (2)",
    ]
