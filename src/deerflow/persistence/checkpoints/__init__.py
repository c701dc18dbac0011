"""LangGraph checkpointers: metadata, serialization and state versions that both databases share.

The tables have a schema version of their own. Checkpoints are kept in a separate store, so each carries the version of
the state it holds: an older program must not misread what a newer one has written.
"""

import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, EXT_PYDANTIC_V2, JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from deerflow.domain.errors import StateTooNew

RUN_KEY = "deerflow_run"
"""Metadata key of the run that wrote a checkpoint."""
WRITER_KEY = "__deerflow_owner"
"""Configurable key of the `CheckpointWriter`."""
COMPRESSED = "msgpack+zlib"
"""Type of compressed values in the tables."""
MIN_COMPRESSED_BYTES, MAX_COMPRESSED_BYTES = 16 * 1024, 1024 * 1024
"""Sizes between which compression saves space and holds the event loop for 10 ms at most."""
MESSAGES: Mapping[tuple[str, str], type[BaseMessage]] = MappingProxyType(
    {(each.__module__, each.__name__): each for each in (AIMessage, HumanMessage, SystemMessage, ToolMessage)}
)
"""Classes of nearly all stored messages, by module and name."""
STATE_VERSION = 2
"""Version of `ThreadState`. Increase it with every change that an older program would misread."""
UUID_VERSION = 6
"""Version of the ids of checkpoints: it sorts by time."""
VERSION_KEY = "deerflow_schema"
"""Metadata key of the state version. Checkpoints without it were written before versions were recorded."""


@dataclass(frozen=True, slots=True)
class CheckpointWriter:
    """Attempt of a run that writes checkpoints. On PostgreSQL only the latest attempt may write."""

    run_id: str
    attempt: int


class VersionedSaver(BaseCheckpointSaver[str]):
    """Mixin that refuses to read checkpoints of a newer state version."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint.

        Raises:
            StateTooNew: It was written by a newer version of this program.
        """
        found = await super().aget_tuple(config)
        if found is not None:
            follow_checkpoint(found.checkpoint["id"])
        return found and check_readable(found)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        Raises:
            StateTooNew: One was written by a newer version of this program.
        """
        async for found in super().alist(config, filter=filter, before=before, limit=limit):
            yield check_readable(found)


def follow_checkpoint(checkpoint_id: str) -> None:
    """Make new checkpoint ids sort after this one, wherever the clock stands.

    LangGraph makes them from the clock and finds the latest checkpoint of a thread by its id. Every run begins by
    reading that checkpoint. Within a process ids only grow, which `_last_v6_timestamp` ensures.
    """
    with suppress(ValueError):  # not made by LangGraph
        found = ids.UUID(checkpoint_id)
        if found.version == UUID_VERSION:
            ids._last_v6_timestamp = max(found.time, ids._last_v6_timestamp or 0)  # type: ignore[assignment]


@runtime_checkable
class ReportsStateVersion(Protocol):
    """Checkpointer that can read the version of a state without reading the state."""

    async def state_version(self, thread_id: str) -> int | None:
        """Return the version of a thread's state, None when it has none."""
        ...


@runtime_checkable
class ChecksStorage(Protocol):
    """Checkpointer with a store of its own that may fail alone."""

    async def check_storage(self) -> None:
        """Raise `StorageUnavailable` when checkpoints cannot be stored."""
        ...


async def check_storage(checkpointer: BaseCheckpointSaver[str]) -> None:
    """Raise `StorageUnavailable` when the checkpointer knows that it cannot store checkpoints."""
    if isinstance(checkpointer, ChecksStorage):
        await checkpointer.check_storage()


async def check_state_version(checkpointer: BaseCheckpointSaver[str], thread_id: str) -> None:
    """Raise `StateTooNew` when this program cannot read a thread's state."""
    if isinstance(checkpointer, ReportsStateVersion):
        check_version(await checkpointer.state_version(thread_id), thread_id)


class CompressingSerializer(JsonPlusSerializer):
    """Serializer that compresses large values, mostly the messages of a whole thread, to about a third.

    Messages were validated before they were stored. To validate them again takes half of the time in which a run reads
    a long thread, so they are restored as they are.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)
        self._restore_others = self._unpack_ext_hook
        self._unpack_ext_hook = self._restore

    def _restore(self, code: int, data: bytes) -> Any:
        if code == EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(self._unpack(data))
        if code == EXT_PYDANTIC_V2:
            module, name, fields, *_ = self._unpack(data)
            if (message := MESSAGES.get((module, name))) is not None:
                return message.model_construct(**fields)
        return self._restore_others(code, data)

    def _unpack(self, data: bytes) -> Any:
        return ormsgpack.unpackb(data, ext_hook=self._restore, option=ormsgpack.OPT_NON_STR_KEYS)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the type and the bytes of a value."""
        kind, data = super().dumps_typed(obj)
        if kind == "msgpack" and MIN_COMPRESSED_BYTES <= len(data) <= MAX_COMPRESSED_BYTES:
            return COMPRESSED, zlib.compress(data, 1)
        return kind, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value of a type and bytes."""
        kind, content = data
        return super().loads_typed(("msgpack", zlib.decompress(content)) if kind == COMPRESSED else data)


def create_serializer() -> JsonPlusSerializer:
    """Return a serializer that restores LangChain's message classes and plain values, nothing else."""
    return CompressingSerializer()


def add_version(metadata: CheckpointMetadata) -> CheckpointMetadata:
    """Return the metadata with the state version added."""
    versioned: Any = {**metadata, VERSION_KEY: STATE_VERSION}
    return versioned  # type: ignore[no-any-return]


def check_readable(found: CheckpointTuple) -> CheckpointTuple:
    """Return `found`, or raise `StateTooNew`. Older versions are read as they are."""
    check_version(read_version(found.metadata), found.config["configurable"]["thread_id"])
    return found


def read_version(metadata: Mapping[str, Any]) -> int:
    """Return the state version that the metadata of a checkpoint holds."""
    version: int = metadata.get(VERSION_KEY, 1)
    return version


def check_version(version: int | None, thread_id: str) -> None:
    """Raise `StateTooNew` when `version` is newer than `STATE_VERSION`."""
    if version is not None and version > STATE_VERSION:
        raise StateTooNew(
            f"thread {thread_id!r} was last used by a newer DeerFlow (state version {version}, this one reads up to "
            f"{STATE_VERSION}); upgrade DeerFlow to continue it. Nothing is lost, and its messages can be read"
        )
