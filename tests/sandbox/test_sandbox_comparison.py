"""Comparison of files with the snapshot before a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from deerflow.domain.errors import FileProblem
from deerflow.domain.files import FileChange, WorkspaceChanges
from deerflow.sandbox.snapshots.comparison import MAX_LISTED, MAX_TEXT
from deerflow.sandbox.snapshots.copies import SnapshotLimits
from deerflow.sandbox.snapshots.snapshots import Snapshots
from tests.sandbox.snapshot_files import EDITS, apply_edit, create_thread_files, files, snapshots

__all__ = ["files", "snapshots"]  # fixtures

WORK = "/mnt/user-data/workspace"


def get_changes(snapshots: Snapshots, run_id: str = "r1") -> WorkspaceChanges:
    found = snapshots.changes(run_id)
    assert found is not None
    return found


def get_only_change(snapshots: Snapshots) -> FileChange:
    (change,) = get_changes(snapshots).files
    return change


def test_returns_diffs_and_line_counts_of_texts(files: Path, snapshots: Snapshots) -> None:
    (files / "workspace/changed.txt").write_bytes(b"one\r\ntwo\n")
    (files / "workspace/removed.txt").write_bytes(b"gone\n")
    snapshots.take("r1")
    (files / "workspace/changed.txt").write_bytes(b"one\r\nthree\n")
    (files / "workspace/removed.txt").unlink()
    (files / "outputs/added.txt").write_bytes("größe".encode())
    found = get_changes(snapshots)
    assert (found.added, found.changed, found.removed, found.renamed) == (1, 1, 1, 0)
    added, changed, removed = found.files
    assert added == FileChange(
        "/mnt/user-data/outputs/added.txt",
        "added",
        size=7,
        lines_added=1,
        lines_removed=0,
        diff="--- /dev/null\n+++ b/mnt/user-data/outputs/added.txt\n"
        "@@ -0,0 +1 @@\n+größe\n\\ No newline at end of file\n",
    )
    assert changed.diff == f"--- a{WORK}/changed.txt\n+++ b{WORK}/changed.txt\n@@ -1,2 +1,2 @@\n one\r\n-two\n+three\n"
    assert (changed.size_before, changed.size) == (9, 11)
    assert removed.diff == f"--- a{WORK}/removed.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n" and removed.size is None


@pytest.mark.parametrize(
    ("before", "after", "left_out"),
    [
        (b"\0\1", b"\0\2", "binary"),
        (b"text", b"\xff\xfe", "binary"),
        (b"x" * MAX_TEXT, b"x" * (MAX_TEXT + 1), "too large"),
        (b"", b"line\n" * 20_000, "too large"),
    ],
)
def test_gives_a_reason_for_a_missing_diff(
    files: Path, snapshots: Snapshots, before: bytes, after: bytes, left_out: str
) -> None:
    (files / "workspace/f").write_bytes(before)
    snapshots.take("r1")
    (files / "workspace/f").write_bytes(after)
    change = get_only_change(snapshots)
    assert (change.diff, change.left_out, change.size) == (None, left_out, len(after))


def test_lists_a_changed_file_without_a_copy(tmp_path: Path, files: Path) -> None:
    snapshots = Snapshots(tmp_path / "snapshots", files, SnapshotLimits(file_bytes=3))
    (files / "workspace/f").write_text("1234")
    snapshots.take("r1")
    (files / "workspace/f").write_text("4321")
    assert get_only_change(snapshots).left_out == "no copy"


def test_lists_a_renamed_file_as_one_change_and_a_folder_by_its_files(files: Path, snapshots: Snapshots) -> None:
    (files / "workspace/old").mkdir()
    for name in ("a", "b"):
        (files / "workspace/old" / name).write_text(name)
    snapshots.take("r1")
    (files / "workspace/old").rename(files / "outputs/new")
    found = get_changes(snapshots)
    assert (found.total, found.renamed) == (2, 2)
    assert [(each.path, each.previous_path) for each in found.files] == [
        ("/mnt/user-data/outputs/new/a", f"{WORK}/old/a"),
        ("/mnt/user-data/outputs/new/b", f"{WORK}/old/b"),
    ]


def test_lists_a_renamed_and_changed_file_as_added(files: Path, snapshots: Snapshots) -> None:
    (files / "workspace/a").write_text("1")
    snapshots.take("r1")
    (files / "workspace/a").rename(files / "workspace/b")
    (files / "workspace/b").write_text("12")
    assert [(each.status, each.path) for each in get_changes(snapshots).files] == [
        ("removed", f"{WORK}/a"),
        ("added", f"{WORK}/b"),
    ]


def test_compares_links_by_target_without_following_them(tmp_path: Path, files: Path, snapshots: Snapshots) -> None:
    (tmp_path / "secret").write_text("secret")
    (files / "workspace/turned").symlink_to("a")
    snapshots.take("r1")
    (files / "workspace/turned").unlink()
    (files / "workspace/turned").symlink_to(tmp_path / "secret")
    (files / "workspace/made").symlink_to("nowhere")
    made, turned = get_changes(snapshots).files
    assert made.is_link and turned.is_link and turned.size is None
    assert turned.diff is not None and f"+{tmp_path}/secret\n" in turned.diff and "+secret" not in turned.diff


def test_does_not_read_hard_links(tmp_path: Path, files: Path, snapshots: Snapshots) -> None:
    (tmp_path / "secret").write_text("secret")
    snapshots.take("r1")
    os.link(tmp_path / "secret", files / "workspace/mine")
    os.mkfifo(files / "workspace/pipe")
    linked, pipe = get_changes(snapshots).files
    assert (linked.left_out, linked.diff, pipe.left_out) == ("several names", None, "binary")


def test_lists_names_with_invalid_utf8_and_line_breaks(files: Path, snapshots: Snapshots) -> None:
    snapshots.take("r1")
    Path(os.fsdecode(os.fsencode(files / "workspace") + b"/\xff\xfe")).write_text("1")
    (files / "workspace/a\nb").write_text("2")
    first, second = get_changes(snapshots).files
    assert first.path == f"{WORK}/\\xff\\xfe" and second.path == f"{WORK}/a\nb"
    assert second.diff is not None and r'+++ "b/mnt/user-data/workspace/a\nb"' in second.diff


def test_lists_a_file_that_became_a_folder_and_back(files: Path, snapshots: Snapshots) -> None:
    (files / "workspace/a").write_text("a")
    (files / "workspace/b").mkdir()
    snapshots.take("r1")
    (files / "workspace/a").unlink()
    (files / "workspace/a").mkdir()
    (files / "workspace/b").rmdir()
    (files / "workspace/b").write_text("b")
    assert [(each.status, each.path) for each in get_changes(snapshots).files] == [
        ("removed", f"{WORK}/a"),
        ("added", f"{WORK}/b"),
    ]


@pytest.mark.slow
def test_counts_all_changes_but_limits_the_list(files: Path, snapshots: Snapshots) -> None:
    snapshots.take("r1")
    for number in range(MAX_LISTED + 10):
        (files / "workspace" / f"{number}").write_text("line\n" * 200)
    found = get_changes(snapshots)
    assert (found.added, len(found.files)) == (MAX_LISTED + 10, MAX_LISTED)
    assert sum(len(each.diff or "") for each in found.files) <= 512 * 1024


def test_fails_after_the_time_limit(files: Path, snapshots: Snapshots) -> None:
    (files / "workspace/a").write_text("a")
    snapshots.take("r1")
    with pytest.raises(FileProblem, match="took over 0 s"):
        snapshots.changes("r1", seconds=0)


def test_user_changes_are_not_part_of_the_run_and_survive_undo(files: Path, snapshots: Snapshots) -> None:
    (files / "uploads/old.txt").write_text("old")
    (files / "workspace/edited").write_text("before")
    (files / "workspace/both").write_text("before")
    snapshots.take("r1")
    paths = ["uploads/new.txt", "uploads/old.txt", "workspace/edited", "outputs/made/deep/file", "workspace/both"]
    with snapshots.adopt_user_changes(f"/mnt/user-data/{path}" for path in paths):
        (files / "uploads/new.txt").write_text("uploaded")
        (files / "uploads/old.txt").unlink()
        (files / "workspace/edited").write_text("by hand")
        (files / "outputs/made/deep").mkdir(parents=True)
        (files / "outputs/made/deep/file").write_text("made")
        (files / "workspace/both").write_text("by hand")
    assert get_changes(snapshots) == WorkspaceChanges()
    (files / "workspace/both").write_text("by the run")
    (files / "outputs/made/deep/other").write_text("by the run")
    (files / "uploads/new.txt").unlink()
    assert [(each.status, each.path.rpartition("/")[2]) for each in get_changes(snapshots).files] == [
        ("added", "other"),
        ("removed", "new.txt"),
        ("changed", "both"),
    ]
    assert snapshots.restore("r1") == ()
    assert (files / "uploads/new.txt").read_text() == "uploaded"
    assert not (files / "uploads/old.txt").exists()
    assert (files / "workspace/edited").read_text() == (files / "workspace/both").read_text() == "by hand"
    assert [each.name for each in (files / "outputs/made/deep").iterdir()] == ["file"]


def test_user_changes_during_a_run_are_the_base_of_the_next_run(files: Path, snapshots: Snapshots) -> None:
    snapshots.take("r1")
    with snapshots.adopt_user_changes(["/mnt/user-data/uploads/a"]):
        (files / "uploads/a").write_text("1")
    snapshots.take("r2")
    (files / "uploads/a").write_text("2")
    assert get_only_change_of(snapshots, "r2").status == "changed"
    snapshots.restore("r2")
    assert (files / "uploads/a").read_text() == "1"
    assert len(list((snapshots.folder / "contents").iterdir())) == 1


def get_only_change_of(snapshots: Snapshots, run_id: str) -> FileChange:
    (change,) = get_changes(snapshots, run_id).files
    return change


def test_skips_a_truncated_line_of_adopted_changes(files: Path, snapshots: Snapshots) -> None:
    snapshots.take("r1")
    with snapshots.adopt_user_changes(["/mnt/user-data/uploads/a"]):
        (files / "uploads/a").write_text("1")
    with (snapshots.folder / "adopted.jsonl").open("a") as notes:
        notes.write('["uploads/b",331')
    assert get_changes(snapshots) == WorkspaceChanges()


def test_failed_user_change_adopts_nothing(files: Path, snapshots: Snapshots) -> None:
    snapshots.take("r1")
    (files / "uploads/a").write_text("by the run")
    with pytest.raises(FileProblem), snapshots.adopt_user_changes(["/mnt/user-data/uploads/a"]):
        raise FileProblem("no")
    assert get_only_change(snapshots).status == "added"


COUNT_FILE_READS = """
import sys
from pathlib import Path
from deerflow.sandbox.snapshots.snapshots import Snapshots

looks = []
sys.addaudithook(lambda event, args: looks.append(args) if event == "os.scandir" else None)
snapshots = Snapshots(Path(sys.argv[1], "snapshots"), Path(sys.argv[1], "user-data"))
assert snapshots.changes("r1").total == 3
print(len(looks))
"""


def test_reads_every_folder_once(tmp_path: Path, files: Path, snapshots: Snapshots) -> None:
    for number in range(20):
        (files / "workspace" / f"{number}" / "deep").mkdir(parents=True)
        (files / "workspace" / f"{number}" / "deep/file").write_text("1")
    snapshots.take("r1")
    (files / "workspace/0/deep/file").write_text("2")
    (files / "workspace/1/deep/file").unlink()
    (files / "workspace/2/deep/new").write_text("3")
    command = [sys.executable, "-c", COUNT_FILE_READS, str(tmp_path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert int(output) == 3 + 2 * 20, "the three areas, and two folders for each number"


@given(before=some.lists(EDITS, max_size=10), during=some.lists(EDITS, max_size=10))
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_lists_exactly_the_changes_of_a_run(
    before: list[tuple[str, str, bytes]], during: list[tuple[str, str, bytes]]
) -> None:
    with create_thread_files() as (files, snapshots):
        for step in before:
            apply_edit(files, *step)
        was = read_tree_contents(files)
        snapshots.take("r1")
        for step in during:
            apply_edit(files, *step)
        now, found = read_tree_contents(files), get_changes(snapshots)
        moved = {each.previous_path for each in found.files if each.status == "renamed"}
        message = {(each.status, each.path) for each in found.files}
        assert {path for status, path in message if status == "removed"} | moved == was.keys() - now.keys()
        assert {path for status, path in message if status in ("added", "renamed")} == now.keys() - was.keys()
        changed = {path for path in was.keys() & now.keys() if was[path] != now[path]}
        assert changed <= {path for status, path in message if status == "changed"}


def read_tree_contents(top: Path) -> dict[str, tuple[str, bytes]]:
    """Return everything below a folder except folders, with its content, by agent path."""
    found: dict[str, tuple[str, bytes]] = {}
    for folder, folders, names in os.walk(top):
        for path in (Path(folder, name) for name in (*folders, *names)):
            shown = os.fsencode(f"/mnt/user-data/{path.relative_to(top)}").decode(errors="backslashreplace")
            if path.is_symlink():
                found[shown] = ("link", os.fsencode(path.readlink()))
            elif path.is_file():
                found[shown] = ("file", path.read_bytes())
            elif not path.is_dir():
                found[shown] = ("other", b"")
    return found
