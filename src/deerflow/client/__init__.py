"""The way in from Python."""

from deerflow.client.client import DeerFlowClient
from deerflow.client.events import StreamEvent, text_of

__all__ = ["DeerFlowClient", "StreamEvent", "text_of"]
