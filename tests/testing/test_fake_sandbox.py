"""The in-memory sandbox."""

import pytest

from deerflow.config.sections.sandbox import LimitsConfig, SandboxConfig
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.sandbox import CommandResult, Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.testing import FakeSandbox, FakeSandboxProvider

FILE = "/mnt/user-data/workspace/a.txt"


async def test_script_answers_commands_and_records_them() -> None:
    output: list[str] = []
    sandbox = FakeSandbox(script=lambda command, _: CommandResult(f"ran {command}", 3))
    result = await sandbox.execute_command("make", on_output=output.append)
    assert (result, output, sandbox.commands) == (CommandResult("ran make", 3), ["ran make"], ["make"])


async def test_script_can_use_files() -> None:
    def cat(command: str, sandbox: FakeSandbox) -> str:
        return sandbox.files[command.removeprefix("cat ")].decode()

    sandbox = FakeSandbox(script=cat)
    await sandbox.write_file(FILE, "text")
    assert (await sandbox.execute_command(f"cat {FILE}")).output == "text"


async def test_commands_succeed_by_default() -> None:
    assert await FakeSandbox().execute_command("anything") == CommandResult("", 0)


async def test_refuses_empty_commands() -> None:
    with pytest.raises(SandboxError, match="empty"):
        await FakeSandbox().execute_command(" ")


async def test_background_process_is_controlled_by_the_test() -> None:
    sandbox = FakeSandbox(script=lambda command, _: "listening\n")
    await sandbox.start_process("web", "serve")
    assert (await sandbox.process_output("web")).output == "listening\n"
    sandbox.end_process("web", 1, "port taken\n")
    last = await sandbox.kill_process("web")
    assert (last.output, last.process.exit_code) == ("port taken\n", 1)
    assert (await sandbox.process_output("web")).output == ""


async def test_background_processes_are_limited_and_unique() -> None:
    provider = FakeSandboxProvider(SandboxConfig(limits=LimitsConfig(background_processes=1)))
    sandbox = await provider.get(await provider.acquire("t1", "local"))
    assert sandbox is not None
    await sandbox.start_process("one", "serve")
    with pytest.raises(SandboxError, match="already running"):
        await sandbox.start_process("one", "serve")
    with pytest.raises(SandboxError, match="kill one first"):
        await sandbox.start_process("two", "serve")
    assert (await sandbox.kill_process("one")).process.exit_code == 137
    await sandbox.start_process("two", "serve")
    assert [process.name for process in await sandbox.list_processes()] == ["one", "two"]
    with pytest.raises(SandboxError, match="no background process"):
        await sandbox.process_output("three")


async def test_discard_and_close_end_processes_and_keep_files() -> None:
    provider = FakeSandboxProvider()
    sandbox = await provider.get(await provider.acquire("t1", "local"))
    assert sandbox is not None
    await sandbox.write_file(FILE, "kept")
    for end in (lambda: provider.discard("t1", "local"), provider.aclose):
        await sandbox.start_process("web", "serve")
        await end()
        assert await sandbox.list_processes() == []
    assert await sandbox.read_file(FILE) == "kept"


async def test_refuses_large_files() -> None:
    sandbox = FakeSandbox()
    sandbox.files[FILE] = bytes(300 * 1024 * 1024)
    with pytest.raises(FileProblem, match="MB"):
        await sandbox.download(FILE)


async def test_records_releases() -> None:
    provider = FakeSandboxProvider()
    await provider.release(await provider.acquire("t1", "local"))
    assert provider.released == ["local:t1"]


def test_fakes_implement_the_protocols() -> None:
    provider: SandboxProvider = FakeSandboxProvider()
    assert isinstance(FakeSandbox(), Sandbox)
    assert provider is not None
