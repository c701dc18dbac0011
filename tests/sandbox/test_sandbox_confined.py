"""Sandboxes that cannot hold a command to less than others run none."""

from pathlib import Path

import pytest

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.sandbox import Confinement, OutputLimits
from deerflow.sandbox.confined import ConfinedLease
from deerflow.sandbox.lease import RunLease
from deerflow.sandbox.local.layout import Layout
from deerflow.sandbox.local.output import BoundedText, OutputReader
from deerflow.sandbox.local.runners import HostRunner, Order
from deerflow.sandbox.locks import FileLocks
from deerflow.testing import FakeSandboxProvider

OUTPUTS, WORKSPACE = "/mnt/user-data/outputs", "/mnt/user-data/workspace"


async def test_a_provider_that_knows_of_no_confinement_lends_its_files_alone() -> None:
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
    with pytest.raises(SandboxError, match="cannot hold commands to it, so none is run"):
        await confined.execute_command("echo hello")
    with pytest.raises(SandboxError, match="cannot hold commands to it, so none is run"):
        await confined.start_process("job", "echo hello")


async def test_without_isolation_a_confined_command_is_not_run(tmp_path: Path) -> None:
    runner = HostRunner(lambda: Layout(tmp_path, {}, (), {}), ())
    order = Order(["/bin/touch", str(tmp_path / "made")], WORKSPACE, confinement=Confinement(hosts=()))

    with pytest.raises(SandboxError, match="nothing on this machine can hold commands to it"):
        await runner.run(order, OutputReader(BoundedText()), 5)

    assert not (tmp_path / "made").exists()
