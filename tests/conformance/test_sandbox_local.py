"""Conformance of the local sandbox with isolation."""

from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

import pytest
import pytest_asyncio

from deerflow.config.sections.sandbox import LimitsConfig, SandboxConfig, ToolboxConfig
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext, SandboxProvider
from tests.conformance.command_suite import CommandSuite, ProcessSuite, SharingSuite
from tests.conformance.sandbox_suite import FileSuite, ProviderSuite, SearchSuite, acquire

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxProvider]:
    provider = LocalSandboxProvider(
        SandboxConfig(toolbox=ToolboxConfig(enabled=False), limits=LimitsConfig(background_processes=2)),
        make_host(tmp_path_factory.mktemp("sandboxes")),
    )
    report = await provider.open()
    assert report.tier == "isolated", report
    yield provider
    await provider.aclose()


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(provider: SandboxProvider) -> AsyncIterator[Sandbox]:
    thread_id = f"t{token_hex(4)}"
    yield await acquire(provider, thread_id)
    await provider.discard(thread_id, "local")


def make_host(home: Path) -> HostContext:
    skill = home / "skills" / "greeting" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Say hello.\n")
    return HostContext(home, home / "cache", lambda _: home / "skills")


class TestProvider(ProviderSuite):
    pass


class TestFiles(FileSuite):
    pass


class TestSearch(SearchSuite):
    pass


class TestCommands(CommandSuite):
    pass


class TestProcesses(ProcessSuite):
    pass


class TestSharing(SharingSuite):
    pass
