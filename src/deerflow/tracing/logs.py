"""The log: lines for people, or JSON for programs, each with the request, run and thread it belongs to."""

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

import orjson

from deerflow.config.logging import LogFormat
from deerflow.tracing.log_context import LOG_CONTEXT

OURS = "deerflow"
NO_NEWS = "Ignoring unknown node name tools in pending sends"
"""What LangGraph says of a state that a run left in the middle of a step: the graph that mends it has no tools."""


Hide = Callable[[str], str]
"""What is said → what others may read of it."""


def start_logging(
    level: str, style: LogFormat, stream: TextIO | None = None, hide: Hide = lambda text: text
) -> logging.Handler:
    """Log to standard error; libraries only when something is wrong, for they may tell what people said."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(hide) if style == "json" else TextLines(hide))
    handler.addFilter(lambda record: record.msg != NO_NEWS)
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(level.upper())
    return handler


class TextLines(logging.Formatter):
    """For people."""

    def __init__(self, hide: Hide) -> None:
        self._hide = hide
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """A line; what follows it is indented, so that nothing in a message can pass for a line of its own."""
        ids = " ".join(f"{name}={id_}" for name, id_ in LOG_CONTEXT.get().items())
        text = self._hide(super().format(record))
        first, *rest = text.splitlines() or [""]
        return "\n    ".join([f"{first} [{ids}]" if ids else first, *rest])


class JsonLines(logging.Formatter):
    """For programs."""

    def __init__(self, hide: Hide) -> None:
        self._hide = hide
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._hide(record.getMessage()),
            **LOG_CONTEXT.get(),
        }
        if record.exc_info:
            line["trace"] = self._hide(self.formatException(record.exc_info))
        return orjson.dumps(line, default=repr).decode()
