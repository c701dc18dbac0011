"""Log formats, the ids of request, run and thread in every log line, and traces of runs in LangSmith."""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from deerflow.config.sections.server import LogFormat

if TYPE_CHECKING:
    from langchain_core.tracers import LangChainTracer


SHORT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG_BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
MAX_LABEL_VALUES = 64
OTHER_LABEL = "other"


class Metrics:
    """Counters and gauges with their own registry: two harnesses in one process do not share them."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "deerflow_http_requests", "Requests by route.", ["method", "route", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "deerflow_http_request_seconds",
            "Time from a request to the start of its response.",
            ["method", "route"],
            buckets=SHORT_BUCKETS,
            registry=registry,
        )
        self.runs_ended = Counter(
            "deerflow_runs_ended", "Ended runs of this process, by status.", ["status"], registry=registry
        )
        self.run_seconds = Histogram(
            "deerflow_run_seconds",
            "Time from the acceptance of a run to its end.",
            buckets=LONG_BUCKETS,
            registry=registry,
        )
        self.runs_unfinished = Gauge(
            "deerflow_runs_unfinished", "Active and queued runs in all processes.", ["status"], registry=registry
        )
        self.runs_here = Gauge("deerflow_runs_here", "Active runs of this process.", registry=registry)
        self.readers = Gauge("deerflow_readers", "Clients that follow a run.", registry=registry)
        self.events = Counter("deerflow_events", "Events appended to run logs.", registry=registry)
        self.database_seconds = Histogram(
            "deerflow_database_seconds",
            "Duration of database calls, including waiting.",
            ["operation"],
            buckets=SHORT_BUCKETS,
            registry=registry,
        )
        self._model_calls = Counter("deerflow_model_calls", "Model answers.", ["model"], registry=registry)
        self._tokens = Counter(
            "deerflow_tokens", "Tokens by model and direction.", ["model", "direction"], registry=registry
        )
        self._tool_calls = Counter("deerflow_tool_calls", "Tool results.", ["tool", "outcome"], registry=registry)
        self._names: dict[str, set[str]] = {"model": set(), "tool": set()}
        self._add_channels(registry)

    def _add_channels(self, registry: CollectorRegistry) -> None:
        self.channel_messages = Counter(
            "deerflow_channel_messages",
            "Messages of chat apps through this process, by direction.",
            ["channel", "direction"],
            registry=registry,
        )
        self.channel_connected = Gauge(
            "deerflow_channel_connected",
            "1 if this process is connected to the chat app, else 0.",
            ["channel"],
            registry=registry,
        )

    def to_text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def count_model_call(self, model: str, tokens_in: int, tokens_out: int) -> None:
        """Count an answer of a model and its tokens."""
        name = self._bounded("model", model)
        self._model_calls.labels(name).inc()
        self._tokens.labels(name, "input").inc(tokens_in)
        self._tokens.labels(name, "output").inc(tokens_out)

    def count_tool_call(self, tool: str, outcome: str) -> None:
        """Count the result of a tool; commands in the sandbox count as `bash`."""
        self._tool_calls.labels(self._bounded("tool", tool), outcome).inc()

    @contextmanager
    def time_database_call(self, operation: str) -> Iterator[None]:
        """Measure the duration of a database call."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.database_seconds.labels(operation).observe(time.perf_counter() - began)

    def _bounded(self, kind: str, name: str) -> str:
        """Return the name, or `other` when there are too many: vendors and models can invent names."""
        known = self._names[kind]
        if name not in known and len(known) >= MAX_LABEL_VALUES:
            return OTHER_LABEL
        known.add(name)
        return name


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


LANGSMITH_SWITCHES = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGCHAIN_TRACING")
LANGSMITH_URL, LANGSMITH_PROJECT = "https://api.smith.langchain.com", "default"
FLUSH_LIMIT_S = 2.0
"""Time to send what is left when the server stops."""


@dataclass(frozen=True, slots=True)
class LangSmithSettings:
    """Settings of LangSmith, from the environment or `.env`."""

    api_key: str
    url: str = LANGSMITH_URL
    project: str = LANGSMITH_PROJECT
    workspace_id: str | None = None


def read_langsmith_settings(environment: Mapping[str, str]) -> LangSmithSettings | None:
    """Return the settings of LangSmith, None when tracing is off or there is no key."""
    if not is_langsmith_enabled(environment):
        return None

    def read(name: str) -> str | None:
        return environment.get(f"LANGSMITH_{name}") or environment.get(f"LANGCHAIN_{name}") or None

    key = read("API_KEY")
    if key is None:
        return None
    url, project = read("ENDPOINT") or LANGSMITH_URL, read("PROJECT") or LANGSMITH_PROJECT
    return LangSmithSettings(key, url, project, read("WORKSPACE_ID"))


def is_langsmith_enabled(environment: Mapping[str, str]) -> bool:
    """Return whether the environment turns tracing on."""
    return any(environment.get(name, "").strip().lower() in ("true", "1") for name in LANGSMITH_SWITCHES)


NewTracers = Callable[[], "list[LangChainTracer]"]
"""Returns the tracers of a new run."""


@asynccontextmanager
async def open_langsmith(environment: Mapping[str, str]) -> AsyncIterator[NewTracers]:
    """Yield a function for the tracers of each run, none when tracing is off. What is left is sent at the end."""
    settings = read_langsmith_settings(environment)
    if settings is None:
        if is_langsmith_enabled(environment):
            logging.getLogger(__name__).warning("runs are not traced: LANGSMITH_API_KEY is not set")
        yield list
        return
    from langchain_core.tracers import LangChainTracer
    from langsmith import Client
    from langsmith.env import get_langchain_env_var_metadata

    await asyncio.to_thread(get_langchain_env_var_metadata)  # asks Git once, which takes a while
    client = Client(settings.url, api_key=settings.api_key, workspace_id=settings.workspace_id)
    try:
        yield lambda: [LangChainTracer(project_name=settings.project, client=client)]
    finally:
        await asyncio.to_thread(client.flush, FLUSH_LIMIT_S)
        await asyncio.to_thread(client.close, 0)
