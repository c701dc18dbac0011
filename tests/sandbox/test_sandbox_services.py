"""Services: isolated, refused, or on the host if allowed."""

import asyncio
import os
from pathlib import Path

import pytest

from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.files.mounts import thread_folder
from deerflow.sandbox.jobs.services import Service, ServiceSpec
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext

ECHO = ("/bin/bash", "-c", 'echo oops >&2; while read -r line; do echo "$line from $(id -u)"; done; exit 3')


def create_provider(home: Path, *, is_able: bool = True, **settings: bool) -> LocalSandboxProvider:
    config = SandboxConfig.model_validate({"toolbox": {"enabled": False}, **settings})
    places = HostContext(home, home / "cache")
    return LocalSandboxProvider(config, places) if is_able else LocalSandboxProvider(config, places, None, lambda: [])


def count_files(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def send_line(service: Service, word: str) -> str:
    async with asyncio.timeout(20):
        await service.write(word.encode() + b"\n")
        return (await service.output.readline()).decode().strip()


async def test_refuses_services_without_isolation(tmp_path: Path) -> None:
    sandboxes = create_provider(tmp_path, is_able=False)
    await sandboxes.open()
    with pytest.raises(SandboxError, match="not started without isolation"):
        await sandboxes.start_service(ServiceSpec("s", ECHO, "ada", "t1"))
    await sandboxes.aclose()


async def test_starts_services_on_the_host_if_allowed(tmp_path: Path) -> None:
    sandboxes = create_provider(tmp_path, is_able=False, allow_host_bash=True)
    await sandboxes.open()
    service = await sandboxes.start_service(ServiceSpec("s", ECHO, "ada", "t1"))
    assert await send_line(service, "hello") == f"hello from {os.getuid()}"
    await service.aclose()
    with pytest.raises(SandboxError, match="cannot be started"):
        await sandboxes.start_service(ServiceSpec("s", ["/nowhere/x"], "ada", "t1"))
    await sandboxes.aclose()


async def test_service_has_a_private_folder_that_stays_with_its_thread(tmp_path: Path) -> None:
    sandboxes = create_provider(tmp_path)
    await sandboxes.open()
    keeping = ("/bin/bash", "-c", "read -r word; echo $word > $HOME/note; echo $word > note; cat $HOME/note; pwd")
    service = await sandboxes.start_service(ServiceSpec("s", keeping, "ada", "t1"))
    assert await send_line(service, "kept") == "kept"
    assert (await service.output.readline()).decode().strip() == "/mnt/user-data/workspace"
    assert await service.output.read() == b""  # it has ended by itself
    await service.aclose()
    folder = thread_folder(tmp_path, "ada", "t1")
    assert (folder / "user-data" / "workspace" / "note").read_text() == "kept\n"
    assert [file.name for file in folder.glob("services/*/home/note")] == ["note"]
    await sandboxes.aclose()


async def test_services_without_a_thread_leave_no_files_and_no_open_descriptors(tmp_path: Path) -> None:
    sandboxes = create_provider(tmp_path)
    await sandboxes.open()

    async def use() -> str:
        service = await sandboxes.start_service(ServiceSpec("s", ECHO, ""))
        printed = await send_line(service, "hello")
        await service.aclose()
        assert service.stderr_tail == "oops"
        return printed

    first = await use()
    before = count_files(Path("/proc/self/fd"))
    assert [await use() for _ in range(5)] == [first] * 5
    assert not first.endswith(" 0")
    assert count_files(Path("/proc/self/fd")) == before
    assert count_files(tmp_path) == 0
    await sandboxes.aclose()


async def test_service_of_a_thread_starts_with_the_saved_home(tmp_path: Path) -> None:
    sandboxes = create_provider(tmp_path)
    await sandboxes.open()
    fetching = ("/bin/bash", "-c", "read -r word; cat $HOME/fetched 2>&1; echo $word >> $HOME/fetched; ls -A $HOME")

    async def say(word: str, thread: str | None, seed: str, *, keep: bool = False) -> str:
        service = await sandboxes.start_service(ServiceSpec("s", fetching, "ada", thread, seed=seed))
        printed = await send_line(service, word)
        if keep:
            service.keep_home()
        await service.aclose()
        return printed

    assert "No such file" in await say("old", None, "one", keep=True)
    assert "No such file" in await say("new", None, "one", keep=True)  # nothing is handed on to whoever asks
    assert await say("of t1", "t1", "one") == "new"
    assert await say("of t2", "t2", "one") == "new"  # what one thread leaves is not for another
    assert list(thread_folder(tmp_path, "ada", "t1").glob("services/*/home")) == []
    assert "No such file" in await say("x", "t3", "two")

    await say("other", None, "three", keep=True)
    locked = next((tmp_path / "services").iterdir()) / "locked"
    locked.mkdir(mode=0o000)
    await sandboxes.prune_homes({"three", "four"})
    assert count_files(tmp_path / "services") == 1 and "No such file" in await say("x", "t4", "one")
    assert await say("x", "t5", "three") == "other"
    await sandboxes.prune_homes(())
    assert count_files(tmp_path / "services") == 0
    await sandboxes.aclose()
