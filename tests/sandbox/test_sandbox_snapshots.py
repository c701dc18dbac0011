"""A thread's files before a run: remembered, compared, brought back."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from deerflow.domain.changes import WorkspaceChanges
from deerflow.sandbox.copies import Limits
from deerflow.sandbox.snapshots import Snapshots
from deerflow.sandbox.tree import MAX_DEPTH

Seen = dict[str, tuple[int, int, int, bytes]]

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
def thread() -> Iterator[tuple[Path, Snapshots]]:
    """The files of a thread, and what remembers them."""
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


def see(top: Path) -> Seen:
    """Everything below a folder: kind and rights, owner, time of files, content."""
    seen: Seen = {}
    for folder, folders, names in os.walk(top):
        for path in (Path(folder, name) for name in (*folders, *names)):
            status = path.lstat()
            is_file, is_link = stat.S_ISREG(status.st_mode), path.is_symlink()
            content = path.read_bytes() if is_file else os.fsencode(path.readlink()) if is_link else b""
            time = status.st_mtime_ns if is_file else 0
            seen[str(path.relative_to(top))] = (status.st_mode, status.st_uid, time, content)
    return seen


def edit(top: Path, kind: str, path: str, content: bytes) -> None:
    """Do something to a tree, as far as it is possible."""
    file = top / path
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        STEPS[kind](file, content)


def write(file: Path, content: bytes, mode: str = "wb") -> None:
    if not file.is_symlink():
        with file.open(mode) as opened:
            opened.write(content)


def remove(file: Path, content: bytes) -> None:
    shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()


def own(file: Path, content: bytes) -> None:
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
    "owner": own,
    "twin": lambda file, content: os.link(file, file.with_name("twin"), follow_symlinks=False),
    "old": lambda file, content: os.utime(file, (1, 1), follow_symlinks=False),
}


@given(before=some.lists(EDITS, max_size=12), during=some.lists(EDITS, max_size=12))
@settings(max_examples=150, deadline=None)
def test_whatever_a_run_does_to_whatever_there_was_is_undone_exactly(
    before: list[tuple[str, str, bytes]], during: list[tuple[str, str, bytes]]
) -> None:
    before = [step for step in before if step[0] != "pipe"]  # what a pipe was for nobody can bring back
    with thread() as (files, snapshots):
        for step in before:
            edit(files, *step)
        seen = see(files)
        snapshots.take("r1")
        assert snapshots.changes("r1") == WorkspaceChanges()
        for step in during:
            edit(files, *step)
        assert snapshots.restore("r1") == ()
        assert see(files) == seen
        assert snapshots.changes("r1") == WorkspaceChanges()


@given(steps=some.lists(some.lists(EDITS, max_size=8), min_size=2, max_size=4))
@settings(max_examples=50, deadline=None)
def test_only_the_newest_run_is_undone_and_older_copies_are_forgotten(
    steps: list[list[tuple[str, str, bytes]]],
) -> None:
    with thread() as (files, snapshots):
        seen: Seen = {}
        for number, edits in enumerate(steps):
            seen = see(files)
            snapshots.take(f"r{number}")
            for step in edits:
                if step[0] != "pipe":
                    edit(files, *step)
        assert snapshots.restore("r0") == ()
        assert snapshots.restore(f"r{len(steps) - 1}") == ()
        assert see(files) == seen
        copies = list((snapshots.folder / "contents").iterdir())
        contents = {content for _, _, _, content in seen.values() if content}
        assert len(copies) <= len(seen) and {copy.read_bytes() for copy in copies} <= contents


def test_a_second_attempt_of_a_run_is_undone_to_before_the_first(files: Path, snapshots: Snapshots) -> None:
    (files / "workspace/a").write_text("before")
    snapshots.take("r1")
    (files / "workspace/a").write_text("first")
    snapshots.take("r1")
    (files / "workspace/a").write_text("second")
    assert snapshots.restore("r1") == ()
    assert (files / "workspace/a").read_text() == "before"


def test_what_changed_is_told(files: Path, snapshots: Snapshots) -> None:
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


def test_a_run_that_used_no_file_is_undone_without_a_trace(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "t" / "snapshots", tmp_path / "t" / "user-data")
    assert snapshots.restore("r1") == ()
    assert snapshots.changes("r1") is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_too_large_to_keep_is_named_when_it_cannot_come_back(tmp_path: Path, files: Path) -> None:
    snapshots = Snapshots(tmp_path / "snapshots", files, Limits(file_bytes=10, bytes=15))
    (files / "workspace/large").write_bytes(b"x" * 11)
    (files / "workspace/other").write_bytes(b"y" * 10)
    (files / "workspace/still").write_bytes(b"z" * 11)
    snapshots.take("r1")
    (files / "workspace/large").unlink()
    (files / "workspace/other").unlink()
    assert snapshots.restore("r1") == ("/mnt/user-data/workspace/large",)
    assert (files / "workspace/other").read_bytes() == b"y" * 10
    assert (files / "workspace/still").read_bytes() == b"z" * 11


def test_a_file_with_a_name_elsewhere_is_not_copied(tmp_path: Path, files: Path, snapshots: Snapshots) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    os.link(secret, files / "workspace/mine")
    snapshots.take("r1")
    (files / "workspace/mine").unlink()
    assert snapshots.restore("r1") == ("/mnt/user-data/workspace/mine",)
    assert not (files / "workspace/mine").exists()


def test_a_folder_swapped_for_a_link_leads_nowhere(tmp_path: Path, files: Path, snapshots: Snapshots) -> None:
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


def test_caches_of_programs_are_left_alone(files: Path, snapshots: Snapshots) -> None:
    for folder in ("workspace/.home", "workspace/app/node_modules", "workspace/app/.venv"):
        (files / folder).mkdir(parents=True)
    snapshots.take("r1")
    (files / "workspace/.home/cache").write_text("kept")
    (files / "workspace/new/__pycache__").mkdir(parents=True)
    (files / "workspace/new/__pycache__/x").touch()
    assert snapshots.changes("r1") == WorkspaceChanges()
    assert snapshots.restore("r1") == ()
    assert (files / "workspace/.home/cache").exists() and not (files / "workspace/new").exists()


def test_folders_deeper_than_anybody_looks_are_left_alone(files: Path, snapshots: Snapshots) -> None:
    deep = files / "workspace" / "/".join("d" * (MAX_DEPTH + 20))
    deep.mkdir(parents=True)
    (deep / "file").write_text("deep")
    snapshots.take("r1")
    (files / "workspace/new").write_text("new")
    assert snapshots.restore("r1") == ()
    assert (deep / "file").read_text() == "deep" and not (files / "workspace/new").exists()


def test_a_broken_list_is_as_good_as_none(files: Path, snapshots: Snapshots) -> None:
    snapshots.take("r1")
    (snapshots.folder / "list.json").write_text('{"version": 1, "run')
    (files / "workspace/kept").touch()
    assert snapshots.restore("r1") == ()
    assert (files / "workspace/kept").exists()
    snapshots.take("r2")
    assert snapshots.changes("r2") == WorkspaceChanges()


def test_untouched_files_are_copied_once(files: Path, snapshots: Snapshots) -> None:
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
