"""Conformance of the in-memory sandbox, which has no shell."""

from collections.abc import AsyncIterator

import pytest

from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.testing import FakeSandboxProvider
from tests.conformance.sandbox_suite import FileSuite, ProviderSuite, SearchSuite, acquire


@pytest.fixture
async def provider() -> AsyncIterator[SandboxProvider]:
    provider = FakeSandboxProvider()
    await provider.open()
    yield provider
    await provider.aclose()


@pytest.fixture
async def sandbox(provider: SandboxProvider) -> Sandbox:
    return await acquire(provider, "t1")


class TestProvider(ProviderSuite):
    pass


class TestFiles(FileSuite):
    pass


class TestSearch(SearchSuite):
    pass
