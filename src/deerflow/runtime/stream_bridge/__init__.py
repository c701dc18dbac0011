"""Stream bridge: notifies the readers of a run about new events."""

from contextlib import AbstractAsyncContextManager, nullcontext

from deerflow.config.imports import require_extra
from deerflow.config.sections.storage import StreamBridgeConfig
from deerflow.runtime.stream_bridge.local import IsUnfinished, MemoryStreamBridge, ReadLog, StreamBridge

__all__ = ["MemoryStreamBridge", "StreamBridge", "open_bridge"]


def open_bridge(
    config: StreamBridgeConfig, process: str, read_log: ReadLog, is_unfinished: IsUnfinished
) -> AbstractAsyncContextManager[StreamBridge]:
    """Open the configured bridge.

    Raises:
        ConfigError: it needs a library that is not installed.
    """
    if config.type == "memory":
        return nullcontext(MemoryStreamBridge(read_log, is_unfinished))
    with require_extra("redis", "stream_bridge.type"):
        from deerflow.runtime.stream_bridge.redis import open_redis_bridge
    return open_redis_bridge(config.redis_url or "", process, read_log, is_unfinished)
