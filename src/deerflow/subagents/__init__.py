"""Subagents: pieces of work done side by side, each by an agent that starts with nothing but its order."""

from deerflow.subagents.kinds import SubagentConfig

__all__ = ["SubagentConfig"]
