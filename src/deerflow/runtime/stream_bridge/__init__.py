"""How readers of a run learn that its log has grown."""

from deerflow.runtime.stream_bridge.bridge import StreamBridge
from deerflow.runtime.stream_bridge.memory import MemoryStreamBridge

__all__ = ["MemoryStreamBridge", "StreamBridge"]
