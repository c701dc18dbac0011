"""Commands on macOS: each is started through `sandbox-exec`. Here a script stands for it, which enforces nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.files.mounts import Mount
from deerflow.sandbox.jobs.services import ServiceSpec
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.local.runners import build_sandbox_exec
from deerflow.sandbox.sandbox_provider import HostContext

FAKE = """#!/bin/bash
while [ "$1" = -D ]; do shift 2; done
[ "$1" = -p ] || exit 64
printf '%s' "$2" > "$0.profile"
shift 2
exec "$@"
"""


@asynccontextmanager
async def open_provider(
    folder: Path, *, has_program: bool = True, **settings: Any
) -> AsyncIterator[LocalSandboxProvider]:
    """Open the provider of a Mac."""
    config = SandboxConfig.model_validate({"toolbox": {"enabled": False}, **settings})
    program = folder / "sandbox-exec"
    if has_program:
        program.write_text(FAKE)
        program.chmod(0o755)
    host = HostContext(folder / "home", folder / "cache")
    provider = LocalSandboxProvider(config, host, system="darwin", sandbox_exec=program)
    try:
        yield provider
    finally:
        await provider.aclose()


async def test_commands_run_in_the_workspace_through_sandbox_exec(tmp_path: Path) -> None:
    async with open_provider(tmp_path) as provider:
        report = await provider.open()
        sandbox = await provider.get(await provider.acquire("t", "local"))
        assert sandbox is not None
        result = await sandbox.execute_command("pwd; echo $TMPDIR; echo kept > note.txt")
        folders = list((tmp_path / "home").rglob("note.txt"))
    assert report.tier == "isolated" and "sandbox-exec, network: none" in report.detail
    where, temporary = result.output.split()
    assert where.endswith("/workspace") and Path(temporary).is_relative_to(tmp_path / "home")
    assert len(folders) == 1
    assert "(deny network*)" in (tmp_path / "sandbox-exec.profile").read_text()


def test_profile_allows_writing_to_writable_mounts_only(tmp_path: Path) -> None:
    mounts = [
        Mount("/mnt/user-data/workspace", tmp_path / 'a "b"'),
        Mount("/mnt/skills", tmp_path / "s", read_only=True),
    ]
    program, *words = build_sandbox_exec(Path("/usr/bin/sandbox-exec"), mounts, has_network=True)
    *parameters, option, profile = words
    assert program == "/usr/bin/sandbox-exec" and option == "-p"
    assert parameters == ["-D", f'MOUNT_0={tmp_path}/a "b"', "-D", f"MOUNT_1={tmp_path}/s"]
    rules = profile.splitlines()
    writing = [rule for rule in rules if rule.startswith("(allow file-write*")]
    assert len(writing) == 1 and '(param "MOUNT_0")' in writing[0] and "MOUNT_1" not in writing[0]
    assert rules.index("(deny file-write*)") < rules.index(writing[0])
    assert '(param "MOUNT_1")' in next(rule for rule in rules if rule.startswith("(allow file-read*"))
    assert "(deny network*)" not in rules


@pytest.mark.parametrize(
    ("has_program", "network", "problem"),
    [(False, "none", "sandbox-exec was not found"), (True, "allowlist", "cannot enforce `sandbox.network: allowlist`")],
)
async def test_commands_are_off_where_they_cannot_be_isolated(
    tmp_path: Path, has_program: bool, network: str, problem: str
) -> None:
    async with open_provider(tmp_path, has_program=has_program, network=network) as provider:
        report = await provider.open()
    assert report.tier == "none" and problem in (report.problem or "") and "containers" in (report.remedy or "")


async def test_services_are_refused_because_they_are_not_isolated(tmp_path: Path) -> None:
    async with open_provider(tmp_path) as provider:
        await provider.open()
        with pytest.raises(SandboxError, match="use remote servers or containers"):
            await provider.start_service(ServiceSpec(("/bin/true",), "local", "t"))
