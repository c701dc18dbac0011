"""Which request, run and thread a line of the log belongs to. Nothing but the log reads it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

LOG_CONTEXT: ContextVar[Mapping[str, str]] = ContextVar("LOG_CONTEXT", default=MappingProxyType({}))


@contextmanager
def logged_as(**ids: str) -> Iterator[None]:
    """Have every line that is logged meanwhile, also in tasks begun meanwhile, carry these ids."""
    token = LOG_CONTEXT.set({**LOG_CONTEXT.get(), **ids})
    try:
        yield
    finally:
        LOG_CONTEXT.reset(token)
