"""Python client: DeerFlow inside a Python program."""

from deerflow.client.client import DeerFlowClient
from deerflow.client.runs import StreamEvent
from deerflow.runtime.journal.serialization import extract_text

text_of = extract_text
"""Earlier name of `extract_text`, kept for existing programs."""

__all__ = ["DeerFlowClient", "StreamEvent", "extract_text", "text_of"]
