"""Providers with synchronous methods."""

from pathlib import Path

import pytest

from deerflow.domain.errors import ConfigError
from deerflow.testing import ScriptedModel
from tests.sandbox.support import OUTPUTS, act, open_sandbox_harness, use

PROVIDERS = "tests.sandbox.sync_provider"


async def test_runs_commands_and_file_tools_of_a_synchronous_provider(tmp_path: Path) -> None:
    results = await use(
        tmp_path,
        act("bash", command="echo one"),
        act("write_file", path=f"{OUTPUTS}/a.txt", content="one\n"),
        act("read_file", path=f"{OUTPUTS}/a.txt"),
        act("glob", path=OUTPUTS, pattern="*.txt"),
        act("grep", path=OUTPUTS, pattern="one"),
        act("read_file", path=f"{OUTPUTS}/b.txt"),
        sandbox={"use": f"{PROVIDERS}:MySandboxProvider"},
    )
    assert results[:3] == ["ran: echo one", "OK", "one\n"]
    assert f"{OUTPUTS}/a.txt" in results[3] and f"{OUTPUTS}/a.txt:1: one" in results[4]
    assert results[5].endswith(f"there is no {OUTPUTS}/b.txt")


async def test_names_the_methods_that_a_synchronous_provider_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        async with open_sandbox_harness(
            tmp_path, ScriptedModel.saying(), sandbox={"use": f"{PROVIDERS}:ForgetfulProvider"}
        ):
            pass
    expected = f"sandbox.use: '{PROVIDERS}:ForgetfulProvider' is not a sandbox provider: it has no release"
    assert str(raised.value) == expected


async def test_tells_the_model_which_methods_a_sandbox_lacks(tmp_path: Path) -> None:
    [result] = await use(tmp_path, act("bash", command="true"), sandbox={"use": f"{PROVIDERS}:BareProvider"})
    assert "have no read_file, no write_file, no list_dir, no glob, no grep, no update_file" in result
