"""Sandboxes on this machine."""

from deerflow.sandbox.local.provider import LocalSandboxProvider

__all__ = ["LocalSandboxProvider"]
