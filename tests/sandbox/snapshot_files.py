"""Files of a thread with random changes, for tests of snapshots."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import strategies as some

from deerflow.sandbox.snapshots.snapshots import Snapshots

TreeState = dict[str, tuple[int, int, int, bytes]]

NAMES = some.sampled_from(["a", "b", "a b", "ä", os.fsdecode(b"\xff\xfe"), "a.b", "-"])
AREA = some.sampled_from(["workspace", "uploads", "outputs"])
PATHS = some.builds(lambda area, names: "/".join([area, *names]), AREA, some.lists(NAMES, min_size=1, max_size=3))
EDITS = some.one_of(
    some.tuples(some.just("write"), PATHS, some.binary(max_size=40)),
    some.tuples(some.just("append"), PATHS, some.binary(max_size=5)),
    some.tuples(some.just("remove"), PATHS, some.just(b"")),
    some.tuples(some.just("folder"), PATHS, some.just(b"")),
    some.tuples(some.just("link"), PATHS, some.sampled_from([b"a", b"../b", b"/etc/passwd", b"nowhere"])),
    some.tuples(some.just("pipe"), PATHS, some.just(b"")),
    some.tuples(some.just("mode"), PATHS, some.sampled_from([b"600", b"755", b"444", b"000"])),
    some.tuples(some.just("owner"), PATHS, some.sampled_from([b"0", b"60926"])),
    some.tuples(some.just("twin"), PATHS, some.just(b"")),
    some.tuples(some.just("old"), PATHS, some.just(b"")),
)


@contextmanager
def create_thread_files() -> Iterator[tuple[Path, Snapshots]]:
    """Create the files and the snapshots of a thread."""
    with tempfile.TemporaryDirectory() as scratch:
        files = Path(scratch, "user-data")
        for area in ("workspace", "uploads", "outputs"):
            (files / area).mkdir(parents=True)
        yield files, Snapshots(Path(scratch, "snapshots"), files)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for area in ("workspace", "uploads", "outputs"):
        (tmp_path / "user-data" / area).mkdir(parents=True)
    return tmp_path / "user-data"


@pytest.fixture
def snapshots(tmp_path: Path, files: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", files)


def read_tree(top: Path) -> TreeState:
    """Return everything below a folder: type and mode, owner, modification time, content."""
    seen: TreeState = {}
    for folder, folders, names in os.walk(top):
        for path in (Path(folder, name) for name in (*folders, *names)):
            status = path.lstat()
            is_file, is_link = stat.S_ISREG(status.st_mode), path.is_symlink()
            content = path.read_bytes() if is_file else os.fsencode(path.readlink()) if is_link else b""
            time = status.st_mtime_ns if is_file else 0
            seen[str(path.relative_to(top))] = (status.st_mode, status.st_uid, time, content)
    return seen


def apply_edit(top: Path, kind: str, path: str, content: bytes) -> None:
    """Apply a change to a tree, as far as possible."""
    file = top / path
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        STEPS[kind](file, content)


def write(file: Path, content: bytes, mode: str = "wb") -> None:
    if not file.is_symlink() and not file.is_fifo():  # opening a pipe would wait for a reader
        with file.open(mode) as opened:
            opened.write(content)


def remove(file: Path, content: bytes) -> None:
    shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()


def change_owner(file: Path, content: bytes) -> None:
    if os.geteuid() == 0:
        os.chown(file, int(content), int(content), follow_symlinks=False)


STEPS: dict[str, Callable[[Path, bytes], object]] = {
    "write": write,
    "append": lambda file, content: write(file, content, "ab"),
    "remove": remove,
    "folder": lambda file, content: file.mkdir(),
    "link": lambda file, content: file.symlink_to(os.fsdecode(content)),
    "pipe": lambda file, content: os.mkfifo(file),
    "mode": lambda file, content: None if file.is_symlink() else file.chmod(int(content, 8)),
    "owner": change_owner,
    "twin": lambda file, content: os.link(file, file.with_name("twin"), follow_symlinks=False),
    "old": lambda file, content: os.utime(file, (1, 1), follow_symlinks=False),
}
