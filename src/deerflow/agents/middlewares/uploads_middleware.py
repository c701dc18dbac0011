"""Public import path of `UploadsMiddleware`."""

from deerflow.uploads.middleware import UploadsMiddleware

__all__ = ["UploadsMiddleware"]
