"""Disk and memory usage is measured, however it is hidden."""

import asyncio
import os
from pathlib import Path

from deerflow.sandbox.local.launcher.cgroups import measure_memfds, measure_memory
from deerflow.sandbox.local.usage import DiskMonitor, measure_disk, remove_folder

MB = 1024 * 1024


def write_megabyte(file: Path) -> None:
    file.write_bytes(bytes(MB))


def test_counts_all_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    write_megabyte(tmp_path / "one")
    write_megabyte(tmp_path / "a" / "b" / "two")
    assert 2 * MB <= measure_disk(tmp_path) < 3 * MB


def test_missing_folder_counts_zero(tmp_path: Path) -> None:
    assert measure_disk(tmp_path / "none") == 0


def test_counts_the_blocks_of_a_sparse_file(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 40)
    assert measure_disk(tmp_path) < MB


def test_counts_empty_files_and_folders(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"file{number}").touch()
        (tmp_path / f"folder{number}").mkdir()
    assert measure_disk(tmp_path) >= 200 * 4096


def test_does_not_follow_links(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    write_megabyte(outside / "file")
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to(outside / "file")
    (inside / "loop").symlink_to(inside)
    assert measure_disk(inside) < MB


def test_counts_files_in_very_deep_folders(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for name in ["d" * 200] * 60 + ["d"] * 400:  # longer than any path can be
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    with os.fdopen(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder), "wb") as file:
        file.write(bytes(5 * MB))
    os.close(folder)
    open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    used = measure_disk(top)
    open_after = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    remove_folder(top)  # nobody else can
    assert (used >= 5 * MB, open_after) == (True, open_before)


async def test_reports_an_almost_full_disk(tmp_path: Path) -> None:
    """Also when nobody sees what fills it, as with files that have no name any more."""
    watch = DiskMonitor([tmp_path], limit=100 * MB, reserve=1 << 60)
    async with asyncio.timeout(10):
        assert "almost full" in await watch.wait_for_excess()


async def test_thread_over_its_limit_may_not_grow(tmp_path: Path) -> None:
    for number in range(3):
        write_megabyte(tmp_path / str(number))
    watch = DiskMonitor([tmp_path], limit=2 * MB, reserve=0)
    watching = asyncio.create_task(watch.wait_for_excess())
    done, _ = await asyncio.wait({watching}, timeout=0.5)
    assert not done, "it has to be able to delete something"
    (tmp_path / "more").write_bytes(bytes(20 * MB))
    async with asyncio.timeout(10):
        assert "more than 2 MB" in await watching


def test_counts_memory_of_all_processes_in_a_network_namespace_and_memory_files() -> None:
    network = Path("/proc/self/ns/net").stat().st_ino
    before = measure_memory(network)
    assert before > 1_000_000, "this process is in its own network"
    taken = os.memfd_create("taken")
    try:
        os.write(taken, bytes(32 << 20))
        assert measure_memfds(Path("/proc/self"))[os.fstat(taken).st_ino] >= 32 << 20
    finally:
        os.close(taken)
    assert measure_memory(1) == 0, "nobody is there"
