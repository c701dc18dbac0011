"""Subagents: agents that execute delegated tasks with a fresh context."""

from deerflow.subagents.types import SubagentConfig

__all__ = ["SubagentConfig"]
