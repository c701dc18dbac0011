"""Runtime: durable runs, their event log and their threads."""

from deerflow.domain.runs import DisconnectMode, RunStatus
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.stream_bridge import StreamBridge

__all__ = ["DisconnectMode", "RunManager", "RunStatus", "StreamBridge"]
