"""How readers of a run learn that its log has grown."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import cast

from deerflow.config.imports import load_extra
from deerflow.config.stream_bridge import StreamBridgeConfig
from deerflow.runtime.stream_bridge.bridge import StreamBridge
from deerflow.runtime.stream_bridge.memory import IsUnfinished, MemoryStreamBridge, ReadLog

__all__ = ["MemoryStreamBridge", "StreamBridge", "open_bridge"]


def open_bridge(
    config: StreamBridgeConfig, process: str, read_log: ReadLog, is_unfinished: IsUnfinished
) -> AbstractAsyncContextManager[StreamBridge]:
    """The bridge that the configuration asks for.

    Raises:
        ConfigError: it needs a library that is not installed.
    """
    if config.type == "memory":
        return nullcontext(MemoryStreamBridge(read_log, is_unfinished))
    found = load_extra("deerflow.runtime.stream_bridge.redis:open_redis_bridge", "redis", "stream_bridge.type")
    opener = cast(Callable[..., AbstractAsyncContextManager[StreamBridge]], found)
    return opener(config.redis_url, process, read_log, is_unfinished)
