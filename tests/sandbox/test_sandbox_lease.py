"""Leases: sandboxes that cannot confine commands refuse them."""

from pathlib import Path

import pytest

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.sandbox import Confinement, OutputLimits
from deerflow.sandbox.file_access import FileLocks
from deerflow.sandbox.lease import ConfinedLease, RunLease
from deerflow.sandbox.local.launcher.bubblewrap import BubblewrapProfile
from deerflow.sandbox.local.output import BoundedText, OutputReader
from deerflow.sandbox.local.runners import CommandSpec, HostRunner
from deerflow.testing import FakeSandboxProvider

OUTPUTS, WORKSPACE = "/mnt/user-data/outputs", "/mnt/user-data/workspace"


async def test_offers_only_files_if_the_provider_cannot_confine() -> None:
    lease = RunLease(FakeSandboxProvider(), "t1", "local", OutputLimits(), FileLocks())
    confined = await ConfinedLease(lease, Confinement(writable=(OUTPUTS,))).sandbox()

    await confined.write_file(f"{OUTPUTS}/a.txt", "a")
    await confined.update_file(f"{OUTPUTS}/b.txt", b"b")
    assert await confined.read_file(f"{OUTPUTS}/a.txt") == "a"
    assert await confined.download(f"{OUTPUTS}/b.txt") == b"b"
    assert (await confined.grep(OUTPUTS, "a")).matches[0].path == f"{OUTPUTS}/a.txt"
    for path in (f"{WORKSPACE}/c", f"{OUTPUTS}/../workspace/c", f"{OUTPUTS}-too/c"):
        with pytest.raises(FileProblem, match="it is read-only; write to another folder"):
            await confined.write_file(path, "c")
    with pytest.raises(SandboxError, match="cannot enforce it for commands, so none is run"):
        await confined.execute_command("echo hello")
    with pytest.raises(SandboxError, match="cannot enforce it for commands, so none is run"):
        await confined.start_process("job", "echo hello")


async def test_refuses_confined_commands_without_isolation(tmp_path: Path) -> None:
    runner = HostRunner(lambda: BubblewrapProfile(tmp_path, {}, (), {}), ())
    order = CommandSpec(["/bin/touch", str(tmp_path / "made")], WORKSPACE, confinement=Confinement(hosts=()))

    with pytest.raises(SandboxError, match="cannot be enforced for commands on this machine"):
        await runner.run(order, OutputReader(BoundedText()), 5)

    assert not (tmp_path / "made").exists()
