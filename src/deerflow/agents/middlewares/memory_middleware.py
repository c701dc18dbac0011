"""Public import path of `MemoryMiddleware`."""

from deerflow.memory.middleware import MemoryMiddleware

__all__ = ["MemoryMiddleware"]
