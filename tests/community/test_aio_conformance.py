"""Conformance of sandboxes in real containers."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider
from tests.community.support import ContainerEngine, running_provider
from tests.conformance.command_suite import CommandSuite, ProcessSuite, SharingSuite
from tests.conformance.sandbox_suite import FileSuite, ProviderSuite, SearchSuite, acquire

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider(engine: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxProvider]:
    folder = tmp_path_factory.mktemp("containers")
    async with running_provider(engine, folder, limits={"background_processes": 2}) as provider:
        yield provider


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(provider: SandboxProvider) -> AsyncIterator[Sandbox]:
    """Return a clean sandbox: a new container for each test would take a minute."""
    sandbox = await acquire(provider, "t1")
    yield sandbox
    if await sandbox.list_processes():
        await provider.discard("t1", "local")
        sandbox = await acquire(provider, "t1")
    await sandbox.execute_command("find /mnt/user-data/*/ /tmp/ -mindepth 1 -not -path '*/.home' -delete")
    await provider.release(sandbox.id)


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
