"""Races: a command swaps folders and files for links while the server reads and writes them."""

import asyncio
import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path

import pytest

from deerflow.config.sections.sandbox import SandboxConfig, ToolboxConfig
from deerflow.domain.errors import Conflict, FileProblem, TooLarge
from deerflow.domain.files import WORKSPACE
from deerflow.sandbox.file_access import open_file, replace_if_unchanged
from deerflow.sandbox.files.files import (
    append_to_file,
    explain_errors,
    list_files,
    list_tree,
    read_file,
    stat_file,
    write_file,
)
from deerflow.sandbox.files.mounts import ResolvedPath, file_owner, resolve_path, user_data_folder, user_data_mounts
from deerflow.sandbox.files.traversal import open_step_by_step
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext

pytestmark = pytest.mark.slow

TRIES = 100_000
SECRET = b"the secret of the host " * 100
OUR_BYTES = b"inside"
OUR_HASH = hashlib.sha256(OUR_BYTES).hexdigest()
FLIP = """
import ctypes, os, pathlib, sys
outside, = sys.argv[1:]
pathlib.Path("folder/deep").mkdir(parents=True)
for name in ("folder/file.txt", "folder/deep/file.txt", "file.txt"):
    pathlib.Path(name).write_text("inside")
os.symlink(outside, "folder-link")
os.symlink(f"{outside}/file.txt", "file-link")
swap = ctypes.CDLL(None).renameat2
print("flipping", flush=True)
while True:
    swap(-100, b"folder", -100, b"folder-link", 2)
    swap(-100, b"file.txt", -100, b"file-link", 2)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a state directory in memory if possible: 100,000 writes would wait for the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def outside(home: Path) -> Path:
    """Create a folder of the host that links point to."""
    folder = home / "outside"
    (folder / "deep").mkdir(parents=True)
    for name in ("file.txt", "deep/file.txt", "secret-name.txt"):
        (folder / name).write_bytes(SECRET)
    return folder


async def test_races_never_lead_outside(home: Path, outside: Path) -> None:
    before = read_folder(outside)
    async with AsyncExitStack() as stack:
        provider = LocalSandboxProvider(
            SandboxConfig(toolbox=ToolboxConfig(enabled=False)), HostContext(home, home / "cache")
        )
        stack.push_async_callback(provider.aclose)
        assert (await provider.open()).tier == "isolated"
        sandbox = await provider.get(await provider.acquire("t1", "local"))
        assert sandbox is not None
        await sandbox.write_file(f"{WORKSPACE}/flip.py", FLIP)
        flipping = asyncio.Event()
        command = sandbox.execute_command(f"python3 flip.py {outside}", on_output=lambda _: flipping.set())
        racing = asyncio.create_task(command)
        async with asyncio.timeout(15):
            await flipping.wait()
        seen = await asyncio.to_thread(race, home)
        assert not racing.done()
        racing.cancel()
        await asyncio.wait({racing})

    assert seen["leak"] == 0
    assert read_folder(outside) == before
    assert seen["went through"] + seen["refused"] == TRIES
    assert min(seen["went through"], seen["refused"]) > TRIES // 100, f"there was no race: {seen}"


def race(home: Path) -> Counter[str]:
    """Read, write and list 100,000 times, and count the results."""
    places = user_data_mounts(user_data_folder(home, "local", "t1"))
    names = ("folder/file.txt", "folder/deep/file.txt", "file.txt")
    resolved_paths = [resolve_path(places, f"{WORKSPACE}/{name}") for name in names]
    folder = resolve_path(places, f"{WORKSPACE}/folder")
    seen: Counter[str] = Counter()
    for _, attempt in zip(range(TRIES), cycle(build_attempts(resolved_paths, folder)), strict=False):
        try:
            is_leak = attempt()
        except (FileProblem, Conflict, TooLarge) as problem:
            seen["refused"] += 1
            is_leak = "secret" in str(problem)
        else:
            seen["went through"] += 1
        seen["leak"] += is_leak
    return seen


def build_attempts(resolved_paths: Sequence[ResolvedPath], folder: ResolvedPath) -> list[Callable[[], bool]]:
    """Return the file operations of the server; each returns True if it saw data of the host."""
    owner = file_owner()

    def attempts_at(resolved: ResolvedPath) -> list[Callable[[], bool]]:
        return [
            lambda: b"secret" in read_file(resolved),
            lambda: b"secret" in read_file(resolved, 100),
            lambda: b"secret" in read_as_served(resolved),
            lambda: replace_if_unchanged(resolved, OUR_BYTES, OUR_HASH, owner).size != len(OUR_BYTES),
            lambda: stat_file(resolved).size == len(SECRET),
            lambda: write_file(resolved, OUR_BYTES, owner) is not None,
            lambda: append_to_file(resolved, b"", owner) is not None,
            lambda: b"secret" in read_as_on_old_kernels(resolved),
        ]

    looks: list[Callable[[], bool]] = [
        lambda: any("secret" in path for path in list_tree(folder, 3)),
        lambda: any(entry.size == len(SECRET) for entry in list_files(folder)),
    ]
    return [attempt for resolved in resolved_paths for attempt in [*attempts_at(resolved), *looks]]


def read_as_served(resolved: ResolvedPath) -> bytes:
    """Return the bytes served to a browser."""
    file = open_file(resolved)
    try:
        return file.read(0, 100)
    finally:
        file.close()


def read_as_on_old_kernels(resolved: ResolvedPath) -> bytes:
    """Return the bytes read without openat2."""
    root = os.open(resolved.mount.folder, os.O_RDONLY)
    try:
        with explain_errors(resolved), os.fdopen(open_step_by_step(root, resolved.relative, os.O_RDONLY), "rb") as file:
            return file.read()
    finally:
        os.close(root)


def read_folder(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
