"""Sandboxes in containers, reached by the HTTP API of the AIO sandbox."""

from deerflow.community.aio_sandbox.provider import AioSandboxProvider

__all__ = ["AioSandboxProvider"]
