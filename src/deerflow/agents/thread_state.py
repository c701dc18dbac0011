"""Public import path of `ThreadState`."""

from deerflow.agent_support.thread_state import ThreadState

__all__ = ["ThreadState"]
