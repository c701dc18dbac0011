"""ASGI middlewares."""
