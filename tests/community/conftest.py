"""Container engine for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.community.support import ContainerEngine, running_engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerEngine]:
    """Return our own Podman with the sandbox image."""
    folder: Path = tmp_path_factory.mktemp("engine")
    with running_engine(folder) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow time for the first build of the image; the tests themselves keep their timeout."""
    for item in items:
        if "engine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(120, func_only=True))
