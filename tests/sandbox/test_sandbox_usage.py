"""How much a thread's files take is seen, however they are hidden."""

import asyncio
import os
from pathlib import Path

from deerflow.sandbox.local.removal import remove_folder
from deerflow.sandbox.local.usage import DiskWatch, disk_usage, files_in_memory, memory_in

MB = 1024 * 1024


def fill(file: Path) -> None:
    file.write_bytes(bytes(MB))


def test_all_files_count(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    fill(tmp_path / "one")
    fill(tmp_path / "a" / "b" / "two")
    assert 2 * MB <= disk_usage(tmp_path) < 3 * MB


def test_what_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert disk_usage(tmp_path / "none") == 0


def test_a_file_of_holes_takes_what_it_takes(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 40)
    assert disk_usage(tmp_path) < MB


def test_empty_files_and_folders_count_too(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"file{number}").touch()
        (tmp_path / f"folder{number}").mkdir()
    assert disk_usage(tmp_path) >= 200 * 4096


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    fill(outside / "file")
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to(outside / "file")
    (inside / "loop").symlink_to(inside)
    assert disk_usage(inside) < MB


def test_files_in_very_deep_folders_count(tmp_path: Path) -> None:
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
    used = disk_usage(top)
    open_after = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    remove_folder(top)  # nobody else can
    assert (used >= 5 * MB, open_after) == (True, open_before)


async def test_a_command_is_ended_when_the_disk_of_the_machine_is_almost_full(tmp_path: Path) -> None:
    """Also when nobody sees what fills it, as with files that have no name any more."""
    watch = DiskWatch([tmp_path], limit=100 * MB, reserve=1 << 60)
    async with asyncio.timeout(10):
        assert "almost full" in await watch.await_excess()


async def test_a_thread_that_is_over_its_limit_may_not_grow(tmp_path: Path) -> None:
    for number in range(3):
        fill(tmp_path / str(number))
    watch = DiskWatch([tmp_path], limit=2 * MB, reserve=0)
    watching = asyncio.create_task(watch.await_excess())
    done, _ = await asyncio.wait({watching}, timeout=0.5)
    assert not done, "it has to be able to delete something"
    (tmp_path / "more").write_bytes(bytes(20 * MB))
    async with asyncio.timeout(10):
        assert "more than 2 MB" in await watching


def test_memory_is_counted_for_all_processes_of_a_network_and_for_files_without_a_name() -> None:
    network = Path("/proc/self/ns/net").stat().st_ino
    before = memory_in(network)
    assert before > 1_000_000, "this process is in its own network"
    taken = os.memfd_create("taken")
    try:
        os.write(taken, bytes(32 << 20))
        assert files_in_memory(Path("/proc/self"))[os.fstat(taken).st_ino] >= 32 << 20
    finally:
        os.close(taken)
    assert memory_in(1) == 0, "nobody is there"
