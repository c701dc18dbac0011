"""Files of a thread: everything below its three folders and nothing else, despite concurrent changes."""

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deerflow.domain.errors import FileProblem, InvalidRequest
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE, ThreadFiles
from deerflow.sandbox.file_access import ServedFile
from deerflow.sandbox.files.files import LocalThreadFiles, list_files, read_file, stat_file, thread_files, write_file
from deerflow.sandbox.files.mounts import Mount, ResolvedPath, resolve_path, user_data_folder, user_data_mounts
from deerflow.sandbox.files.traversal import open_step_by_step

SECRET = b"the secret of somebody else"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create the files of a thread next to a secret outside."""
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret").write_bytes(SECRET)
    folder = tmp_path / "user-data"
    for name in ("workspace", "uploads", "outputs"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.fixture
def files(root: Path) -> LocalThreadFiles:
    return thread_files(root)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/mnt/user-data/workspace/../../secret", "must not contain '..'"),
        ("/mnt/user-data/workspace/..", "must not contain '..'"),
        ("/mnt/user-data/secret", "outside the sandbox folders; paths start with /mnt/user-data/workspace"),
        ("/mnt/user-data/workspaces/a", "outside the sandbox folders"),
        ("/mnt/user-data", "outside the sandbox folders"),
        ("/etc/passwd", "outside the sandbox folders"),
        ("notes.txt", "outside the sandbox folders"),
        ("", "outside the sandbox folders"),
        ("/mnt/user-data/workspace/a\0b", "characters that are invalid in file names"),
        ("/mnt/user-data/workspace/a\udc80b", "characters that are invalid in file names"),
        (f"/mnt/user-data/workspace/{'x' * 300}", "too long"),
        ("/mnt/user-data/workspace", "it is a folder"),
    ],
)
async def test_refuses_invalid_paths_with_a_message_for_the_model(files: ThreadFiles, path: str, text: str) -> None:
    for attempt in (files.stat(path), files.read(path), files.write(path, b"x")):
        with pytest.raises(FileProblem, match=text):
            await attempt


async def test_reports_a_missing_file_with_a_hint(files: ThreadFiles) -> None:
    with pytest.raises(FileProblem, match="'/mnt/user-data/outputs/none' cannot be used: there is no such file; list"):
        await files.read(f"{OUTPUTS}/none")
    with pytest.raises(FileProblem, match="no such file"):
        await files.list(f"{OUTPUTS}/none")


@pytest.mark.parametrize("target", ["../..", "{outside}", "/proc/self/cwd"])
async def test_does_not_follow_links_that_lead_outside(root: Path, files: ThreadFiles, target: str) -> None:
    outside = target.format(outside=root.parent)
    (root / "workspace" / "link").symlink_to(f"{outside}/secret")
    (root / "workspace" / "folder").symlink_to(f"{outside}/private")
    for path in (f"{WORKSPACE}/link", f"{WORKSPACE}/folder/secret"):
        for attempt in (files.stat(path), files.read(path), files.write(path, b"mine")):
            with pytest.raises(FileProblem, match="it is a link that"):
                await attempt
    with pytest.raises(FileProblem, match="it is a link that leads outside"):
        await files.list(f"{WORKSPACE}/folder")
    assert await files.list(WORKSPACE) == []
    assert (root.parent / "secret").read_bytes() == (root.parent / "private" / "secret").read_bytes() == SECRET


async def test_follows_links_that_stay_inside_for_reading(root: Path, files: ThreadFiles) -> None:
    await files.write(f"{WORKSPACE}/versions/2/report", b"second")
    (root / "workspace" / "latest").symlink_to("versions/2")
    (root / "workspace" / "versions" / "link").symlink_to("../latest/report")
    assert await files.read(f"{WORKSPACE}/latest/report") == b"second"
    assert await files.read(f"{WORKSPACE}/versions/link") == b"second"
    await files.write(f"{WORKSPACE}/latest/new", b"x")
    assert (root / "workspace/versions/2/new").read_bytes() == b"x"
    with pytest.raises(FileProblem, match="it is a link"):
        await files.write(f"{WORKSPACE}/versions/link", b"x")


def test_follows_no_links_without_openat2(root: Path) -> None:
    (root / "workspace" / "folder").mkdir()
    (root / "workspace" / "folder" / "file").write_bytes(b"mine")
    (root / "workspace" / "link").symlink_to("folder")
    workspace = os.open(root / "workspace", os.O_RDONLY | os.O_DIRECTORY)
    try:
        opened = open_step_by_step(workspace, "folder/file", os.O_RDONLY)
        assert os.read(opened, 10) == b"mine"
        os.close(opened)
        for path in ("link/file", "link", "../secret"):
            with pytest.raises(OSError):
                os.close(open_step_by_step(workspace, path, os.O_RDONLY))
    finally:
        os.close(workspace)


async def test_appends_to_a_file_and_creates_it_if_missing(root: Path) -> None:
    files = thread_files(root)
    await files.append(f"{WORKSPACE}/logs/a", b"1\r\n")
    await files.append(f"{WORKSPACE}/logs/a", b"\xff")
    assert await files.read(f"{WORKSPACE}/logs/a") == b"1\r\n\xff"
    (root / "workspace" / "link").symlink_to(root.parent / "secret")
    with pytest.raises(FileProblem, match="leads outside"):
        await files.append(f"{WORKSPACE}/link", b"mine")
    assert (root.parent / "secret").read_bytes() == SECRET


async def test_refuses_writes_to_a_read_only_mount(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_bytes(b"a skill")
    files = LocalThreadFiles((Mount("/mnt/skills", tmp_path, read_only=True),))
    assert await files.read("/mnt/skills/SKILL.md") == b"a skill"
    for attempt in (files.write("/mnt/skills/SKILL.md", b"x"), files.append("/mnt/skills/SKILL.md", b"x")):
        with pytest.raises(FileProblem, match="read-only"):
            await attempt
    assert (tmp_path / "SKILL.md").read_bytes() == b"a skill"


async def test_lists_a_tree_to_the_requested_depth(root: Path) -> None:
    files = thread_files(root)
    await files.write(f"{WORKSPACE}/a/b/c/d", b"x")
    await files.write(f"{WORKSPACE}/z", b"x")
    found = await files.tree(WORKSPACE, 2)
    assert found == [f"{WORKSPACE}/a/", f"{WORKSPACE}/a/b/", f"{WORKSPACE}/z"]


async def test_does_not_follow_a_mount_that_is_a_link(root: Path, files: ThreadFiles) -> None:
    (root / "outputs").rmdir()
    (root / "outputs").symlink_to(root.parent / "private")
    with pytest.raises(FileProblem, match="not a folder"):
        await files.read(f"{OUTPUTS}/secret")
    with pytest.raises(FileProblem, match="it is a link"):
        await files.write(f"{OUTPUTS}/new", b"x")
    assert not (root.parent / "private" / "new").exists()


async def test_refuses_hard_links(root: Path, files: ThreadFiles) -> None:
    (root / "workspace" / "link").hardlink_to(root.parent / "secret")
    for attempt in (files.stat(f"{WORKSPACE}/link"), files.read(f"{WORKSPACE}/link")):
        with pytest.raises(FileProblem, match="hard link"):
            await attempt
    with pytest.raises(FileProblem, match="hard link"):
        await files.write(f"{WORKSPACE}/link", b"mine")
    assert await files.list(WORKSPACE) == []


async def test_refuses_a_pipe_without_blocking(root: Path, files: ThreadFiles) -> None:
    os.mkfifo(root / "workspace" / "pipe")
    async with asyncio.timeout(5):
        for attempt in (files.stat(f"{WORKSPACE}/pipe"), files.read(f"{WORKSPACE}/pipe")):
            with pytest.raises(FileProblem, match="not a regular file"):
                await attempt
        assert await files.list(WORKSPACE) == []


@pytest.mark.slow
def test_never_reads_through_a_folder_swapped_for_a_link(root: Path) -> None:
    folder = root / "workspace" / "folder"
    folder.mkdir()
    (folder / "secret").write_bytes(b"mine")
    answers = {b"mine": 0, b"refused": 0}
    with flip_link(folder, root.parent / "private"):
        for _ in range(5_000):
            try:
                answer = read_file(resolve(root, f"{WORKSPACE}/folder/secret"))
            except FileProblem:
                answer = b"refused"
            answers[answer] = answers.get(answer, 0) + 1
    assert answers.keys() == {b"mine", b"refused"}, "something else was read"
    assert all(answers.values()), f"the race was not a race: {answers}"


@pytest.mark.slow
def test_never_writes_or_lists_through_a_folder_swapped_for_a_link(root: Path) -> None:
    folder = root / "workspace" / "folder"
    private = root.parent / "private"
    with replace_by_link(folder, private):
        for _ in range(2_000):
            with suppress(FileProblem):
                write_file(resolve(root, f"{WORKSPACE}/folder/new"), b"x")
            with suppress(FileProblem):
                assert not any("secret" in entry.path for entry in list_files(resolve(root, WORKSPACE)))
    assert [path.name for path in private.iterdir()] == ["secret"]


def test_never_reads_through_a_file_swapped_for_a_link(root: Path) -> None:
    file, link = root / "workspace" / "file", root / "workspace" / "link"
    seen = set()
    with swap_link(file, link, root.parent / "secret"):
        for _ in range(5_000):
            try:
                seen.add(read_file(resolve(root, f"{WORKSPACE}/file")))
            except FileProblem:
                seen.add(b"refused")
    assert seen == {b"mine", b"refused"}


def test_replaces_a_file_atomically(root: Path) -> None:
    contents = {letter * 100_000 for letter in (b"a", b"b")}
    path = f"{OUTPUTS}/report"
    write_file(resolve(root, path), b"a" * 100_000)
    done = threading.Event()

    def keep_writing() -> None:
        while not done.is_set():
            for content in contents:
                write_file(resolve(root, path), content)

    with repeat_in_background(keep_writing, done):
        assert {read_file(resolve(root, path)) for _ in range(500)} <= contents
    assert [entry.path for entry in list_files(resolve(root, OUTPUTS))] == [path]


@given(content=st.binary(max_size=5_000), name=st.text(min_size=1, max_size=40).filter(lambda name: is_usable(name)))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reads_back_any_bytes_under_any_name(root: Path, content: bytes, name: str) -> None:
    path = f"{UPLOADS}/{name}"
    write_file(resolve(root, path), content)
    assert read_file(resolve(root, path)) == content
    assert stat_file(resolve(root, path)).size == len(content)
    assert path in [entry.path for entry in list_files(resolve(root, UPLOADS))]


async def test_accepts_names_with_newlines_and_any_script(files: ThreadFiles) -> None:
    paths = [f"{UPLOADS}/two\nlines.txt", f"{UPLOADS}/报告 №1.md", f"{UPLOADS}/<b>&.txt"]
    for path in paths:
        await files.write(path, path.encode())
    assert sorted(entry.path for entry in await files.list(UPLOADS)) == sorted(paths)
    assert [await files.read(path) for path in paths] == [path.encode() for path in paths]


async def test_skips_names_that_are_not_utf8(root: Path, files: ThreadFiles) -> None:
    (Path(os.fsdecode(bytes(root / "uploads"))) / os.fsdecode(b"\xff.txt")).write_bytes(b"x")
    await files.write(f"{UPLOADS}/a.txt", b"x")
    assert [entry.path for entry in await files.list(UPLOADS)] == [f"{UPLOADS}/a.txt"]


async def test_creates_folders_on_first_write_and_lists_recursively(tmp_path: Path) -> None:
    files: ThreadFiles = thread_files(user_data_folder(tmp_path, "local", "t1"))
    assert await files.list(OUTPUTS) == []
    await files.write(f"{OUTPUTS}/charts/2026/a.png", b"12345")
    await files.write(f"{OUTPUTS}//./b.md", b"1")
    assert [(entry.path, entry.size) for entry in await files.list(OUTPUTS)] == [
        (f"{OUTPUTS}/b.md", 1),
        (f"{OUTPUTS}/charts/2026/a.png", 5),
    ]
    assert (tmp_path / "users/local/threads/t1/user-data/outputs/b.md").read_bytes() == b"1"
    assert (await files.stat(f"{OUTPUTS}/b.md")).modified_at.tzinfo is not None


async def test_reads_only_the_first_bytes_on_request(files: ThreadFiles) -> None:
    await files.write(f"{WORKSPACE}/log", b"0123456789")
    assert await files.read(f"{WORKSPACE}/log", limit=4) == b"0123"


async def test_refuses_a_file_that_is_too_large_to_read(root: Path, files: ThreadFiles) -> None:
    with (root / "workspace" / "huge").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileProblem, match="more than 256 MB; read only a part"):
        await files.read(f"{WORKSPACE}/huge")
    assert await files.read(f"{WORKSPACE}/huge", limit=3) == b"\0\0\0"


async def test_keeps_the_permissions_of_a_replaced_file(root: Path, files: ThreadFiles) -> None:
    script = root / "workspace" / "run.sh"
    script.write_bytes(b"old")
    script.chmod(0o750)
    await files.write(f"{WORKSPACE}/run.sh", b"new")
    assert script.stat().st_mode & 0o777 == 0o750


async def test_failed_write_leaves_no_files(root: Path, files: ThreadFiles) -> None:
    await files.write(f"{WORKSPACE}/folder/file", b"x")
    with pytest.raises(FileProblem, match="it is a folder"):
        await files.write(f"{WORKSPACE}/folder", b"x")
    with pytest.raises(FileProblem, match="not a folder"):
        await files.write(f"{WORKSPACE}/folder/file/below", b"x")
    assert [path.name for path in (root / "workspace").iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("user", "thread"), [("..", "t"), ("a/b", "t"), ("", "t"), ("u", ".."), ("u", "a/b"), ("u", "")]
)
def test_refuses_ids_that_could_escape_the_folder(tmp_path: Path, user: str, thread: str) -> None:
    with pytest.raises(InvalidRequest):
        user_data_folder(tmp_path, user, thread)


def resolve(root: Path, path: str) -> ResolvedPath:
    """Return the resolved path in the files of a thread stored in `root`."""
    return resolve_path(user_data_mounts(root), path)


def is_usable(name: str) -> bool:
    """Return True if Linux accepts `name` as a plain file name."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return False
    return "/" not in name and "\0" not in name and name not in (".", "..") and len(encoded) <= 255


@contextmanager
def flip_link(folder: Path, target: Path) -> Iterator[None]:
    """Alternate `folder` between a folder and a link to `target`."""
    aside, link, done = folder.with_name("aside"), folder.with_name("link"), threading.Event()

    def flip() -> None:
        while not done.is_set():
            link.symlink_to(target)
            folder.rename(aside)
            link.rename(folder)
            folder.unlink()
            aside.rename(folder)

    with repeat_in_background(flip, done):
        yield


@contextmanager
def replace_by_link(folder: Path, target: Path) -> Iterator[None]:
    """Keep removing `folder` and putting a link to `target` in its place."""
    done = threading.Event()

    def usurp() -> None:
        while not done.is_set():
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                folder.symlink_to(target)
                folder.unlink()

    with repeat_in_background(usurp, done):
        yield


@contextmanager
def swap_link(file: Path, link: Path, target: Path) -> Iterator[None]:
    """Alternate `file` between a file and a link to `target`, without a gap."""
    file.write_bytes(b"mine")
    fresh, done = file.with_name("fresh"), threading.Event()

    def swap() -> None:
        while not done.is_set():
            link.symlink_to(target)
            link.replace(file)
            fresh.write_bytes(b"mine")
            fresh.replace(file)

    with repeat_in_background(swap, done):
        yield


@contextmanager
def repeat_in_background(work: Callable[[], None], done: threading.Event) -> Iterator[None]:
    """Repeat `work` in a thread until `done` is set."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(10)
        assert not thread.is_alive()


def test_a_served_file_is_closed_after_its_last_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    served = ServedFile(os.open(tmp_path / "file", os.O_RDONLY))
    descriptor = served.fileno()
    del served  # a warning about it would fail the test
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
