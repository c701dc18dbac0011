"""The version of what checkpoints hold, so that an older program never misreads what a newer one has written.

What the tables hold, JSON in them included, has the version of the tables; checkpoints are in a store of their own.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, CheckpointTuple

from deerflow.domain.errors import StateTooNew

STATE_VERSION = 1
"""To be raised with every change of `ThreadState` that an older program would misread."""
VERSION_KEY = "deerflow_schema"
"""Under this name every checkpoint says which version it has; one that does not is from before there were several."""


@runtime_checkable
class KnowsVersions(Protocol):
    """A checkpointer that can tell the version of a state without reading it."""

    async def state_version(self, thread_id: str) -> int | None:
        """The version of what a thread holds; None when it holds nothing."""
        ...


async def check_state(checkpointer: BaseCheckpointSaver[str], thread_id: str) -> None:
    """Raise `StateTooNew` when a thread's state cannot be read by this program."""
    if isinstance(checkpointer, KnowsVersions):
        check_version(await checkpointer.state_version(thread_id), thread_id)


def versioned(metadata: CheckpointMetadata) -> CheckpointMetadata:
    """What is to be said of a checkpoint, with its version."""
    said: Any = {**metadata, VERSION_KEY: STATE_VERSION}
    return said  # type: ignore[no-any-return]


def readable(found: CheckpointTuple) -> CheckpointTuple:
    """`found`, unless it is `StateTooNew`. There is nothing older yet that would have to be brought up to date."""
    check_version(version_in(found.metadata), found.config["configurable"]["thread_id"])
    return found


def version_in(metadata: Mapping[str, Any]) -> int:
    """The version that a checkpoint says it has."""
    version: int = metadata.get(VERSION_KEY, 1)
    return version


def check_version(version: int | None, thread_id: str) -> None:
    """Raise `StateTooNew` for a version from the future."""
    if version is not None and version > STATE_VERSION:
        raise StateTooNew(
            f"thread {thread_id!r} was last used by a newer DeerFlow (its state has version {version}, this one reads "
            f"up to {STATE_VERSION}): upgrade DeerFlow to go on with it; nothing is lost, and its messages can be read"
        )
