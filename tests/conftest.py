"""Fixtures for all tests."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from langchain_core.language_models import BaseChatModel

from deerflow.config.source import ConfigSource, open_source
from deerflow.harness import Harness, open_harness
from tests.support import OpenHarness

# Before any test imports them: then pytest explains what fails in them.
pytest.register_assert_rewrite("tests.conformance.sandbox_suite", "tests.conformance.command_suite")


@pytest.fixture
def source(tmp_path: Path) -> ConfigSource:
    """The defaults, with no variable and no file of this machine."""
    return open_source(directory=tmp_path, environment={})


@pytest.fixture
def harness_saying(source: ConfigSource) -> OpenHarness:
    """Opens a harness in which the given model answers; opening it again finds what the first one left."""

    def opener(model: BaseChatModel) -> AbstractAsyncContextManager[Harness]:
        return open_harness(source, model)

    return opener
