"""Log formats, and the ids of request, run and thread in every log line."""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TextIO

import orjson

from deerflow.config.sections.server import LogFormat

LOG_CONTEXT: ContextVar[Mapping[str, str]] = ContextVar("LOG_CONTEXT", default=MappingProxyType({}))


@contextmanager
def add_log_context(**ids: str) -> Iterator[None]:
    """Add ids to all lines logged in this context, including tasks started in it."""
    token = LOG_CONTEXT.set({**LOG_CONTEXT.get(), **ids})
    try:
        yield
    finally:
        LOG_CONTEXT.reset(token)


LOGGER_NAME = "deerflow"
IGNORED_MESSAGE = "Ignoring unknown node name tools in pending sends"
"""LangGraph logs this for a state that a run left in the middle of a step: the repair graph has no tools."""


Redact = Callable[[str], str]
"""Returns a text with secrets masked."""


def start_logging(
    level: str, style: LogFormat, stream: TextIO | None = None, redact: Redact = lambda text: text
) -> logging.Handler:
    """Log to standard error; libraries only from warnings on, since they may log user content."""
    handler = LogHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(redact) if style == "json" else TextFormatter(redact))
    handler.addFilter(lambda record: record.msg != IGNORED_MESSAGE)
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER_NAME).setLevel(level.upper())
    return handler


class LogHandler(logging.StreamHandler[TextIO]):
    """Handler that drops lines which cannot be written, as on a full disk, and goes on."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Report bugs in log calls, but not the device: the report would go there as well."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class TextFormatter(logging.Formatter):
    """Human-readable log lines."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return a line; further lines are indented, so that no message can imitate a log line."""
        ids = " ".join(f"{name}={id_}" for name, id_ in LOG_CONTEXT.get().items())
        text = self._redact(super().format(record))
        first, *rest = text.splitlines() or [""]
        return "\n    ".join([f"{first} [{ids}]" if ids else first, *rest])


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        """Return a JSON object."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
            **LOG_CONTEXT.get(),
        }
        if record.exc_info:
            line["trace"] = self._redact(self.formatException(record.exc_info))
        return orjson.dumps(line, default=repr).decode()
