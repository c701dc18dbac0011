"""The sandbox in memory answers commands as a test says."""

import pytest

from deerflow.config.sandbox import LimitsConfig, SandboxConfig
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.sandbox import CommandResult, Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.testing import FakeSandbox, FakeSandboxProvider

FILE = "/mnt/user-data/workspace/a.txt"


async def test_a_command_is_answered_by_the_script_and_remembered() -> None:
    heard: list[str] = []
    sandbox = FakeSandbox(script=lambda command, _: CommandResult(f"ran {command}", 3))
    result = await sandbox.execute_command("make", on_output=heard.append)
    assert (result, heard, sandbox.commands) == (CommandResult("ran make", 3), ["ran make"], ["make"])


async def test_a_script_can_use_the_files() -> None:
    def cat(command: str, sandbox: FakeSandbox) -> str:
        return sandbox.files[command.removeprefix("cat ")].decode()

    sandbox = FakeSandbox(script=cat)
    await sandbox.write_file(FILE, "text")
    assert (await sandbox.execute_command(f"cat {FILE}")).output == "text"


async def test_a_silent_sandbox_lets_every_command_succeed() -> None:
    assert await FakeSandbox().execute_command("anything") == CommandResult("", 0)


async def test_an_empty_command_is_refused() -> None:
    with pytest.raises(SandboxError, match="empty"):
        await FakeSandbox().execute_command(" ")


async def test_a_background_process_ends_when_the_test_says_so() -> None:
    sandbox = FakeSandbox(script=lambda command, _: "listening\n")
    await sandbox.start_process("web", "serve")
    assert (await sandbox.process_output("web")).output == "listening\n"
    sandbox.end_process("web", 1, "port taken\n")
    last = await sandbox.kill_process("web")
    assert (last.output, last.process.exit_code) == ("port taken\n", 1)
    assert (await sandbox.process_output("web")).output == ""


async def test_background_processes_are_bounded_and_named_once() -> None:
    provider = FakeSandboxProvider(SandboxConfig(limits=LimitsConfig(background_processes=1)))
    sandbox = await provider.get(await provider.acquire("t1", "local"))
    assert sandbox is not None
    await sandbox.start_process("one", "serve")
    with pytest.raises(SandboxError, match="running already"):
        await sandbox.start_process("one", "serve")
    with pytest.raises(SandboxError, match="end one first"):
        await sandbox.start_process("two", "serve")
    assert (await sandbox.kill_process("one")).process.exit_code == 137
    await sandbox.start_process("two", "serve")
    assert [process.name for process in await sandbox.list_processes()] == ["one", "two"]
    with pytest.raises(SandboxError, match="no background process"):
        await sandbox.process_output("three")


async def test_discarding_and_closing_end_the_processes_and_keep_the_files() -> None:
    provider = FakeSandboxProvider()
    sandbox = await provider.get(await provider.acquire("t1", "local"))
    assert sandbox is not None
    await sandbox.write_file(FILE, "kept")
    for end in (lambda: provider.discard("t1", "local"), provider.aclose):
        await sandbox.start_process("web", "serve")
        await end()
        assert await sandbox.list_processes() == []
    assert await sandbox.read_file(FILE) == "kept"


async def test_a_file_that_is_too_large_is_refused() -> None:
    sandbox = FakeSandbox()
    sandbox.files[FILE] = bytes(300 * 1024 * 1024)
    with pytest.raises(FileProblem, match="MB"):
        await sandbox.download(FILE)


async def test_releases_are_remembered() -> None:
    provider = FakeSandboxProvider()
    await provider.release(await provider.acquire("t1", "local"))
    assert provider.released == ["local:t1"]


def test_fakes_are_what_they_stand_for() -> None:
    provider: SandboxProvider = FakeSandboxProvider()
    assert isinstance(FakeSandbox(), Sandbox)
    assert provider is not None
